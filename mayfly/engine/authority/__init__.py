"""Authority: the rights of users on objects, and the checks of verbs."""
