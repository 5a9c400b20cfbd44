"""Properties over generated input: the package against the second implementation and against generic tools."""
