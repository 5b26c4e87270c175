"""The MQI vocabulary: constants, reason codes, errors and byte layouts, without behaviour."""
