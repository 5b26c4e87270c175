"""Security: admission of clients and partner queue managers, each as a user (docs/SECURITY.md)."""
