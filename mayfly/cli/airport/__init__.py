"""The demo: one real year of flights as boarding calls, live for a day and replayed as a whole."""
