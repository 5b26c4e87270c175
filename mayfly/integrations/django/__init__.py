"""Django Tasks on Mayfly: a backend, and the command ``manage.py mayfly_worker`` (docs/TASKS.md).

``django.tasks`` is part of Django 6; for Django 5 the package ``django-tasks`` has the same.
"""
