"""The grammars of RFC 8259 and RFC 3629 as they are printed there, a recogniser for them, and texts around their edges."""
