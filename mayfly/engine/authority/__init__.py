"""Authority: the operations that a user may do on an object, and the checks of them."""
