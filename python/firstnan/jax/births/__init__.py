"""Where a NaN or an Inf is born: the first equation of a step's jaxpr that makes one which reaches an output.

cells        a value with what is known of it: its flags, the arguments behind it, the equations its NaN or Inf came by
owners       which elements of an equation's output come from which elements of its inputs, and which are born
trail        the links of one equation: those of its inputs and those that it adds
operands     what is kept of a birth's inputs and outputs
interpreter  walks a jaxpr equation by equation over cells, into every call and loop
stacking     elements of a scanned array, and the array of them
execution    how an equation is carried out: as it stands, or on every shard of a shard_map
supported    the versions of JAX whose jaxprs can be walked: >=0.10,<0.11
sources      the user's line of an equation, and the sweep of differentiation it belongs to
findings     what `locate` returns
report       from the cells of the outputs back to the births
finder       `locate`
replay       the step of an incident bundle once more, its counts compared, then located
"""
