"""The console: a page for operators, which speaks only to the resources of HTTP."""
