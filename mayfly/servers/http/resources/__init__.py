"""Mayfly's own resources: each is a module with its operations, which ``application`` lists."""
