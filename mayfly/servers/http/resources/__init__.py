"""Resources of Mayfly in JSON, below ``/mayfly/v1``: those of one queue manager each."""
