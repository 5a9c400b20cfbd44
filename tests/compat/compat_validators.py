"""Any set of schemas as the validators of other languages read it: JSON Schema, then a CEL engine on every rule."""

import jsonschema
from referencing import Registry, Resource

from properties.generic import compiled, resolved


class Validators:
    def __init__(self, documents):
        self.documents, self.made = documents, {}
        self.registry = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in documents.values())

    def root(self, kind):
        return self.documents[kind], self.registry.resolver(self.documents[kind]["$id"])

    def is_valid(self, kind, value):
        if kind not in self.made:
            self.made[kind] = jsonschema.Draft202012Validator(self.documents[kind], registry=self.registry)
        return self.made[kind].is_valid(value) and self.rules_hold(*self.root(kind), value)

    def rules_hold(self, schema, resolver, value):
        schema, resolver = resolved(schema, resolver)
        for branch in schema.get("oneOf", []) + schema.get("anyOf", []):
            if jsonschema.Draft202012Validator(branch, registry=self.registry, _resolver=resolver).is_valid(value):
                return self.rules_hold(branch, resolver, value)
        if isinstance(value, list):
            return all(self.rules_hold(schema.get("items", {}), resolver, member) for member in value)
        if not isinstance(value, dict):
            return True
        members = schema.get("properties", {})
        below = all(self.rules_hold(members[name], resolver, member) for name, member in value.items() if name in members)
        return below and all(holds(rule["rule"], value) for rule in schema.get("x-firstnan-rules", ()))


def holds(rule, value):
    """A rule that fails refuses the record, as schemas/README.md says."""
    try:
        return compiled(rule).execute({"self": value}) is True
    except (ValueError, TypeError, KeyError, RuntimeError, OverflowError):
        return False
