"""The airport demo: flights of a real year as messages, live for a day and replayed as a year.

Each flight is one message, its boarding call.
"""
