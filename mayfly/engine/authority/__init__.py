"""Authority: who may do what to which object, and where that is asked."""
