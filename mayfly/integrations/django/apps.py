"""The application of Django, which brings the worker's command."""

from __future__ import annotations

from django.apps import AppConfig


class MayflyTasksConfig(AppConfig):
    """The entry of INSTALLED_APPS: ``mayfly.integrations.django``."""

    name = "mayfly.integrations.django"
    label = "mayfly_tasks"
    verbose_name = "Mayfly tasks"
