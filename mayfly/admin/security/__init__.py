"""Security: the admission of clients and partners, each as a user (docs/SECURITY.md)."""
