"""The MQ reason codes: names, completion codes and what each one means, in one table.

`MQRC_x` is an int attribute here; the functions answer for any number, known or not.
"""

from typing import NamedTuple

from mayfly.mqi.constants import MQCC_FAILED, MQCC_OK, MQCC_WARNING

MQRC_NONE = 0
MQRC_ALIAS_BASE_Q_TYPE_ERROR = 2001
MQRC_ALREADY_CONNECTED = 2002
MQRC_BACKED_OUT = 2003
MQRC_BUFFER_ERROR = 2004
MQRC_BUFFER_LENGTH_ERROR = 2005
MQRC_CHAR_ATTR_LENGTH_ERROR = 2006
MQRC_CHAR_ATTRS_TOO_SHORT = 2008
MQRC_CONNECTION_BROKEN = 2009
MQRC_DATA_LENGTH_ERROR = 2010
MQRC_DYNAMIC_Q_NAME_ERROR = 2011
MQRC_ENVIRONMENT_ERROR = 2012
MQRC_EXPIRY_ERROR = 2013
MQRC_FEEDBACK_ERROR = 2014
MQRC_GET_INHIBITED = 2016
MQRC_HANDLE_NOT_AVAILABLE = 2017
MQRC_HCONN_ERROR = 2018
MQRC_HOBJ_ERROR = 2019
MQRC_INHIBIT_VALUE_ERROR = 2020
MQRC_INT_ATTR_COUNT_ERROR = 2021
MQRC_INT_ATTR_COUNT_TOO_SMALL = 2022
MQRC_SYNCPOINT_LIMIT_REACHED = 2024
MQRC_MAX_CONNS_LIMIT_REACHED = 2025
MQRC_MD_ERROR = 2026
MQRC_MISSING_REPLY_TO_Q = 2027
MQRC_MSG_TYPE_ERROR = 2029
MQRC_MSG_TOO_BIG_FOR_Q = 2030
MQRC_MSG_TOO_BIG_FOR_Q_MGR = 2031
MQRC_NO_MSG_AVAILABLE = 2033
MQRC_NO_MSG_UNDER_CURSOR = 2034
MQRC_NOT_AUTHORIZED = 2035
MQRC_NOT_OPEN_FOR_BROWSE = 2036
MQRC_NOT_OPEN_FOR_INPUT = 2037
MQRC_NOT_OPEN_FOR_INQUIRE = 2038
MQRC_NOT_OPEN_FOR_OUTPUT = 2039
MQRC_NOT_OPEN_FOR_SET = 2040
MQRC_OBJECT_CHANGED = 2041
MQRC_OBJECT_IN_USE = 2042
MQRC_OBJECT_TYPE_ERROR = 2043
MQRC_OD_ERROR = 2044
MQRC_OPTION_NOT_VALID_FOR_TYPE = 2045
MQRC_OPTIONS_ERROR = 2046
MQRC_PERSISTENCE_ERROR = 2047
MQRC_PERSISTENT_NOT_ALLOWED = 2048
MQRC_PRIORITY_EXCEEDS_MAXIMUM = 2049
MQRC_PRIORITY_ERROR = 2050
MQRC_PUT_INHIBITED = 2051
MQRC_Q_DELETED = 2052
MQRC_Q_FULL = 2053
MQRC_Q_NOT_EMPTY = 2055
MQRC_Q_SPACE_NOT_AVAILABLE = 2056
MQRC_Q_TYPE_ERROR = 2057
MQRC_Q_MGR_NAME_ERROR = 2058
MQRC_Q_MGR_NOT_AVAILABLE = 2059
MQRC_REPORT_OPTIONS_ERROR = 2061
MQRC_SECURITY_ERROR = 2063
MQRC_SELECTOR_COUNT_ERROR = 2065
MQRC_SELECTOR_ERROR = 2067
MQRC_SELECTOR_NOT_FOR_TYPE = 2068
MQRC_SIGNAL_REQUEST_ACCEPTED = 2070
MQRC_SYNCPOINT_NOT_AVAILABLE = 2072
MQRC_TRUNCATED_MSG_ACCEPTED = 2079
MQRC_TRUNCATED_MSG_FAILED = 2080
MQRC_UNKNOWN_ALIAS_BASE_Q = 2082
MQRC_UNKNOWN_OBJECT_NAME = 2085
MQRC_UNKNOWN_OBJECT_Q_MGR = 2086
MQRC_UNKNOWN_REMOTE_Q_MGR = 2087
MQRC_WAIT_INTERVAL_ERROR = 2090
MQRC_XMIT_Q_TYPE_ERROR = 2091
MQRC_XMIT_Q_USAGE_ERROR = 2092
MQRC_NOT_OPEN_FOR_PASS_ALL = 2093
MQRC_NOT_OPEN_FOR_PASS_IDENT = 2094
MQRC_NOT_OPEN_FOR_SET_ALL = 2095
MQRC_NOT_OPEN_FOR_SET_IDENT = 2096
MQRC_CONTEXT_HANDLE_ERROR = 2097
MQRC_CONTEXT_NOT_AVAILABLE = 2098
MQRC_OBJECT_ALREADY_EXISTS = 2100
MQRC_OBJECT_DAMAGED = 2101
MQRC_RESOURCE_PROBLEM = 2102
MQRC_UNKNOWN_REPORT_OPTION = 2104
MQRC_FORMAT_ERROR = 2110
MQRC_SOURCE_CCSID_ERROR = 2111
MQRC_TARGET_CCSID_ERROR = 2115
MQRC_NOT_CONVERTED = 2119
MQRC_CONVERTED_MSG_TOO_BIG = 2120
MQRC_TRUNCATED = MQRC_CONVERTED_MSG_TOO_BIG
MQRC_BO_ERROR = 2134
MQRC_OPEN_FAILED = 2137
MQRC_CNO_ERROR = 2139
MQRC_DLH_ERROR = 2141
MQRC_HEADER_ERROR = 2142
MQRC_IIH_ERROR = 2148
MQRC_OBJECT_NAME_ERROR = 2152
MQRC_OBJECT_Q_MGR_NAME_ERROR = 2153
MQRC_RECS_PRESENT_ERROR = 2154
MQRC_Q_MGR_QUIESCING = 2161
MQRC_Q_MGR_STOPPING = 2162
MQRC_PMO_ERROR = 2173
MQRC_REMOTE_Q_NAME_ERROR = 2184
MQRC_INCONSISTENT_PERSISTENCE = 2185
MQRC_GMO_ERROR = 2186
MQRC_CLUSTER_RESOLUTION_ERROR = 2189
MQRC_TMC_ERROR = 2191
MQRC_STORAGE_MEDIUM_FULL = 2192
MQRC_PAGESET_FULL = MQRC_STORAGE_MEDIUM_FULL
MQRC_PAGESET_ERROR = 2193
MQRC_UNEXPECTED_ERROR = 2195
MQRC_UNKNOWN_XMIT_Q = 2196
MQRC_UNKNOWN_DEF_XMIT_Q = 2197
MQRC_MSG_MARKED_BROWSE_CO_OP = 2200
MQRC_CONNECTION_QUIESCING = 2202
MQRC_NO_MSG_LOCKED = 2209
MQRC_CONNECTION_NOT_AUTHORIZED = 2217
MQRC_MSG_TOO_BIG_FOR_CHANNEL = 2218
MQRC_CALL_IN_PROGRESS = 2219
MQRC_UNIT_OF_WORK_NOT_STARTED = 2232
MQRC_INCOMPLETE_GROUP = 2241
MQRC_INCOMPLETE_MSG = 2242
MQRC_INCONSISTENT_CCSIDS = 2243
MQRC_INCONSISTENT_ENCODINGS = 2244
MQRC_INCONSISTENT_UOW = 2245
MQRC_INVALID_MSG_UNDER_CURSOR = 2246
MQRC_MATCH_OPTIONS_ERROR = 2247
MQRC_MDE_ERROR = 2248
MQRC_MSG_FLAGS_ERROR = 2249
MQRC_MSG_SEQ_NUMBER_ERROR = 2250
MQRC_OFFSET_ERROR = 2251
MQRC_ORIGINAL_LENGTH_ERROR = 2252
MQRC_SEGMENT_LENGTH_ZERO = 2253
MQRC_UOW_NOT_AVAILABLE = 2255
MQRC_WRONG_GMO_VERSION = 2256
MQRC_WRONG_MD_VERSION = 2257
MQRC_GROUP_ID_ERROR = 2258
MQRC_INCONSISTENT_BROWSE = 2259
MQRC_XQH_ERROR = 2260
MQRC_TM_ERROR = 2265
MQRC_NO_DESTINATIONS_AVAILABLE = 2270
MQRC_FUNCTION_NOT_SUPPORTED = 2298
MQRC_MSG_TOKEN_ERROR = 2331
MQRC_RFH_ERROR = 2334
MQRC_RFH_STRING_ERROR = 2335
MQRC_BACKOUT_THRESHOLD_REACHED = 2362
MQRC_MSG_NOT_MATCHED = 2363
MQRC_Q_INDEX_TYPE_ERROR = 2394
MQRC_EPH_ERROR = 2420
MQRC_RFH_FORMAT_ERROR = 2421
MQRC_SD_ERROR = 2424
MQRC_TOPIC_STRING_ERROR = 2425
MQRC_NO_SUBSCRIPTION = 2428
MQRC_SUBSCRIPTION_IN_USE = 2429
MQRC_SUB_ALREADY_EXISTS = 2432
MQRC_NO_RETAINED_MSG = 2437
MQRC_SUB_NAME_ERROR = 2440
MQRC_PROPERTY_NAME_ERROR = 2442
MQRC_SELECTOR_SYNTAX_ERROR = 2459
MQRC_HMSG_ERROR = 2460
MQRC_PROPERTY_NOT_AVAILABLE = 2471
MQRC_PUT_NOT_RETAINED = 2479
MQRC_PUBLICATION_FAILURE = 2502
MQRC_SUB_INHIBITED = 2503
MQRC_SELECTOR_ALWAYS_FALSE = 2504
MQRC_SELECTION_STRING_ERROR = 2519
MQRC_HOST_NOT_AVAILABLE = 2538
MQRC_CHANNEL_CONFIG_ERROR = 2539
MQRC_UNKNOWN_CHANNEL_NAME = 2540
MQRC_NO_SUBS_MATCHED = 2550
MQRC_PROPERTIES_DISABLED = 2586
MQRC_HMSG_NOT_AVAILABLE = 2587


class Reason(NamedTuple):
    """What is known of a reason code; comp is the graver one where a code comes with two."""

    name: str
    comp: int
    text: str


_WARNINGS = {
    MQRC_ALREADY_CONNECTED: "This thread is connected to the queue manager already.",
    MQRC_CHAR_ATTRS_TOO_SHORT: "Not all character attributes fitted into the buffer.",
    MQRC_INT_ATTR_COUNT_TOO_SMALL: "Fewer integer attributes were returned than asked for.",
    MQRC_PRIORITY_EXCEEDS_MAXIMUM: "The priority is above the maximum; the maximum is used.",
    MQRC_SELECTOR_NOT_FOR_TYPE: "A selector does not apply to this type of queue.",
    MQRC_SIGNAL_REQUEST_ACCEPTED: "The signal request was accepted; the message comes later.",
    MQRC_TRUNCATED_MSG_ACCEPTED: "The buffer was too small; the message was returned cut short.",
    MQRC_TRUNCATED_MSG_FAILED: "The buffer is too small; the message stays where it is.",
    MQRC_UNKNOWN_REPORT_OPTION: "A report option is not known here; the message was accepted.",
    MQRC_FORMAT_ERROR: "The message cannot be converted: its format is not known.",
    MQRC_SOURCE_CCSID_ERROR: "The character set of the message is not known.",
    MQRC_TARGET_CCSID_ERROR: "The wanted character set is not known.",
    MQRC_NOT_CONVERTED: "The message was returned unconverted.",
    MQRC_CONVERTED_MSG_TOO_BIG: "The converted message does not fit the buffer.",
    MQRC_NO_MSG_LOCKED: "There was no locked message to unlock.",
    MQRC_INCONSISTENT_CCSIDS: "Segments of the message differ in character set.",
    MQRC_INCONSISTENT_ENCODINGS: "Segments of the message differ in encoding.",
    MQRC_NO_SUBS_MATCHED: "The publication matched no subscription.",
}

_FAILURES = {
    MQRC_ALIAS_BASE_Q_TYPE_ERROR: "The alias points at something that is not a queue it may name.",
    MQRC_BACKED_OUT: "The unit of work was backed out, not committed.",
    MQRC_BUFFER_ERROR: "The buffer parameter is not valid.",
    MQRC_BUFFER_LENGTH_ERROR: "The buffer length is negative.",
    MQRC_CHAR_ATTR_LENGTH_ERROR: "The length given for character attributes is negative.",
    MQRC_CONNECTION_BROKEN: "The connection was lost during the call; its handles are dead.",
    MQRC_DATA_LENGTH_ERROR: "The data length parameter is not valid.",
    MQRC_DYNAMIC_Q_NAME_ERROR: "The name for the dynamic queue is not valid.",
    MQRC_ENVIRONMENT_ERROR: "The call is not possible in this environment.",
    MQRC_EXPIRY_ERROR: "The expiry is neither positive nor unlimited, or shorter than the delay.",
    MQRC_FEEDBACK_ERROR: "The feedback code is outside the ranges allowed on a put.",
    MQRC_GET_INHIBITED: "Gets are inhibited for the queue.",
    MQRC_HANDLE_NOT_AVAILABLE: "No more handles: the limit of the queue manager is reached.",
    MQRC_HCONN_ERROR: "The connection handle is not valid.",
    MQRC_HOBJ_ERROR: "The object handle is not valid.",
    MQRC_INHIBIT_VALUE_ERROR: "The value for an inhibit attribute is not valid.",
    MQRC_INT_ATTR_COUNT_ERROR: "The number of integer attributes is negative.",
    MQRC_SYNCPOINT_LIMIT_REACHED: "The unit of work holds as many messages as are allowed.",
    MQRC_MAX_CONNS_LIMIT_REACHED: "The queue manager has as many connections as are allowed.",
    MQRC_MD_ERROR: "The message descriptor has a wrong structure id or version.",
    MQRC_MISSING_REPLY_TO_Q: "A reply or report was asked for, but no reply-to queue is named.",
    MQRC_MSG_TYPE_ERROR: "The message type is outside the system and application ranges.",
    MQRC_MSG_TOO_BIG_FOR_Q: "The message is longer than the queue allows.",
    MQRC_MSG_TOO_BIG_FOR_Q_MGR: "The message is longer than the queue manager allows.",
    MQRC_NO_MSG_AVAILABLE: "No message to return.",
    MQRC_NO_MSG_UNDER_CURSOR: "The browse cursor is not on a message that can be returned.",
    MQRC_NOT_AUTHORIZED: "The user lacks the authority for this.",
    MQRC_NOT_OPEN_FOR_BROWSE: "The queue was not opened for browse.",
    MQRC_NOT_OPEN_FOR_INPUT: "The queue was not opened for input.",
    MQRC_NOT_OPEN_FOR_INQUIRE: "The object was not opened for inquire.",
    MQRC_NOT_OPEN_FOR_OUTPUT: "The object was not opened for output.",
    MQRC_NOT_OPEN_FOR_SET: "The object was not opened for set.",
    MQRC_OBJECT_CHANGED: "The definition of the object changed after it was opened.",
    MQRC_OBJECT_IN_USE: "The object is open in a way that rules this out.",
    MQRC_OBJECT_TYPE_ERROR: "The object type is not valid.",
    MQRC_OD_ERROR: "The object descriptor has a wrong structure id or version.",
    MQRC_OPTION_NOT_VALID_FOR_TYPE: "The option does not suit this type of object.",
    MQRC_OPTIONS_ERROR: "The options are unknown or rule each other out.",
    MQRC_PERSISTENCE_ERROR: "The persistence is not 0, 1 or 2.",
    MQRC_PERSISTENT_NOT_ALLOWED: "A temporary dynamic queue holds no persistent messages.",
    MQRC_PRIORITY_ERROR: "The priority is negative and is not a special value.",
    MQRC_PUT_INHIBITED: "Puts are inhibited somewhere on the way to the queue.",
    MQRC_Q_DELETED: "The queue was deleted after it was opened.",
    MQRC_Q_FULL: "The queue holds as many messages as it may.",
    MQRC_Q_NOT_EMPTY: "The queue is not empty, or has uncommitted changes.",
    MQRC_Q_SPACE_NOT_AVAILABLE: "There is no disk space for the queue.",
    MQRC_Q_TYPE_ERROR: "This type of queue does not suit the call.",
    MQRC_Q_MGR_NAME_ERROR: "No queue manager of this name is known.",
    MQRC_Q_MGR_NOT_AVAILABLE: "The queue manager is not running or cannot be reached.",
    MQRC_REPORT_OPTIONS_ERROR: "The report options hold a bit that must be rejected.",
    MQRC_SECURITY_ERROR: "The security check itself failed.",
    MQRC_SELECTOR_COUNT_ERROR: "The number of selectors is not valid.",
    MQRC_SELECTOR_ERROR: "A selector is not one the object has.",
    MQRC_SYNCPOINT_NOT_AVAILABLE: "Syncpoint is not available here.",
    MQRC_UNKNOWN_ALIAS_BASE_Q: "The queue the alias points at does not exist.",
    MQRC_UNKNOWN_OBJECT_NAME: "No object of this name is defined here.",
    MQRC_UNKNOWN_OBJECT_Q_MGR: "The queue manager named in the object descriptor is not valid.",
    MQRC_UNKNOWN_REMOTE_Q_MGR: "No transmission queue leads to this queue manager.",
    MQRC_WAIT_INTERVAL_ERROR: "The wait interval is negative and not unlimited.",
    MQRC_XMIT_Q_TYPE_ERROR: "The transmission queue is not a local queue.",
    MQRC_XMIT_Q_USAGE_ERROR: "The transmission queue is not defined for transmission.",
    MQRC_NOT_OPEN_FOR_PASS_ALL: "The queue was not opened to pass all context.",
    MQRC_NOT_OPEN_FOR_PASS_IDENT: "The queue was not opened to pass identity context.",
    MQRC_NOT_OPEN_FOR_SET_ALL: "The queue was not opened to set all context.",
    MQRC_NOT_OPEN_FOR_SET_IDENT: "The queue was not opened to set identity context.",
    MQRC_CONTEXT_HANDLE_ERROR: "The queue handle named for context is not valid or saves none.",
    MQRC_CONTEXT_NOT_AVAILABLE: "No context has been saved for the queue handle yet.",
    MQRC_OBJECT_ALREADY_EXISTS: "An object of this name exists already.",
    MQRC_OBJECT_DAMAGED: "The object is damaged.",
    MQRC_RESOURCE_PROBLEM: "The system is out of a resource.",
    MQRC_BO_ERROR: "The begin options structure is not valid.",
    MQRC_OPEN_FAILED: "The object could not be opened; another reason says why.",
    MQRC_CNO_ERROR: "The connect options structure is not valid.",
    MQRC_DLH_ERROR: "The dead-letter header is not valid.",
    MQRC_HEADER_ERROR: "A header in the message is not valid.",
    MQRC_IIH_ERROR: "The IMS header is not valid.",
    MQRC_OBJECT_NAME_ERROR: "The object name is not allowed here.",
    MQRC_OBJECT_Q_MGR_NAME_ERROR: "The queue manager name is not allowed here.",
    MQRC_RECS_PRESENT_ERROR: "The number of records in the structure is not valid.",
    MQRC_Q_MGR_QUIESCING: "The queue manager is quiescing.",
    MQRC_Q_MGR_STOPPING: "The queue manager is stopping.",
    MQRC_PMO_ERROR: "The put options structure has a wrong structure id or version.",
    MQRC_REMOTE_Q_NAME_ERROR: "The remote queue definition is not complete.",
    MQRC_INCONSISTENT_PERSISTENCE: "Messages of one group or segment set differ in persistence.",
    MQRC_GMO_ERROR: "The get options structure has a wrong structure id or version.",
    MQRC_CLUSTER_RESOLUTION_ERROR: "The cluster queue could not be resolved.",
    MQRC_TMC_ERROR: "The character form of the trigger message is not valid.",
    MQRC_STORAGE_MEDIUM_FULL: "The log or the storage is full.",
    MQRC_PAGESET_ERROR: "The page set could not be used.",
    MQRC_UNEXPECTED_ERROR: "Something failed inside the queue manager.",
    MQRC_UNKNOWN_XMIT_Q: "The transmission queue named in the definition does not exist.",
    MQRC_UNKNOWN_DEF_XMIT_Q: "The default transmission queue does not exist.",
    MQRC_MSG_MARKED_BROWSE_CO_OP: "The message is marked by a co-operating browser.",
    MQRC_CONNECTION_QUIESCING: "The connection is quiescing.",
    MQRC_CONNECTION_NOT_AUTHORIZED: "The connection is not authorized for this.",
    MQRC_MSG_TOO_BIG_FOR_CHANNEL: "The message is longer than the channel allows.",
    MQRC_CALL_IN_PROGRESS: "Another call with this handle is in progress.",
    MQRC_UNIT_OF_WORK_NOT_STARTED: "No unit of work has been started.",
    MQRC_INCOMPLETE_GROUP: "A group of messages is left incomplete.",
    MQRC_INCOMPLETE_MSG: "A message in segments is left incomplete.",
    MQRC_INCONSISTENT_UOW: "The group or message is partly in a unit of work and partly not.",
    MQRC_INVALID_MSG_UNDER_CURSOR: "The message under the cursor does not fit the order of groups.",
    MQRC_MATCH_OPTIONS_ERROR: "The match options are unknown or do not go together.",
    MQRC_MDE_ERROR: "The descriptor extension is not valid.",
    MQRC_MSG_FLAGS_ERROR: "The message flags are unknown or do not go together.",
    MQRC_MSG_SEQ_NUMBER_ERROR: "The message sequence number is outside 1 to 999999999.",
    MQRC_OFFSET_ERROR: "The segment offset is out of range.",
    MQRC_ORIGINAL_LENGTH_ERROR: "The original length is not valid.",
    MQRC_SEGMENT_LENGTH_ZERO: "A segment holds no data.",
    MQRC_UOW_NOT_AVAILABLE: "The queue manager cannot start a unit of work.",
    MQRC_WRONG_GMO_VERSION: "The options need a newer version of the get options.",
    MQRC_WRONG_MD_VERSION: "The call needs version 2 of the message descriptor.",
    MQRC_GROUP_ID_ERROR: "The group id is not valid or missing.",
    MQRC_INCONSISTENT_BROWSE: "Browse and get are mixed within one logical sequence.",
    MQRC_XQH_ERROR: "The transmission queue header is not valid.",
    MQRC_TM_ERROR: "The trigger message is not valid.",
    MQRC_NO_DESTINATIONS_AVAILABLE: "The cluster queue has no instance that can take the message.",
    MQRC_FUNCTION_NOT_SUPPORTED: "The queue manager does not support the function.",
    MQRC_MSG_TOKEN_ERROR: "A message token may not be used here.",
    MQRC_RFH_ERROR: "The rules and formatting header is not valid.",
    MQRC_RFH_STRING_ERROR: "The text of the rules and formatting header is not valid.",
    MQRC_BACKOUT_THRESHOLD_REACHED: "The message was backed out as often as allowed.",
    MQRC_MSG_NOT_MATCHED: "The message matched no consumer.",
    MQRC_Q_INDEX_TYPE_ERROR: "The queue is not indexed as the call needs it.",
    MQRC_EPH_ERROR: "The header of the embedded command is not valid.",
    MQRC_RFH_FORMAT_ERROR: "A folder of the rules and formatting header is not valid.",
    MQRC_SD_ERROR: "The subscription descriptor is not valid.",
    MQRC_TOPIC_STRING_ERROR: "The topic string is not valid.",
    MQRC_NO_SUBSCRIPTION: "No subscription of this name exists.",
    MQRC_SUBSCRIPTION_IN_USE: "The subscription is in use.",
    MQRC_SUB_ALREADY_EXISTS: "A subscription of this name exists already.",
    MQRC_NO_RETAINED_MSG: "No retained publication exists.",
    MQRC_SUB_NAME_ERROR: "The subscription name is missing or not valid.",
    MQRC_PROPERTY_NAME_ERROR: "The property name is not valid.",
    MQRC_SELECTION_STRING_ERROR: "The selection string is too long or cannot be read.",
    MQRC_SELECTOR_SYNTAX_ERROR: "The selection string has a syntax error.",
    MQRC_HMSG_ERROR: "The message handle is not valid.",
    MQRC_PROPERTY_NOT_AVAILABLE: "The property does not exist.",
    MQRC_PUT_NOT_RETAINED: "The publication could not be retained.",
    MQRC_PUBLICATION_FAILURE: "The publication did not reach the subscribers it must reach.",
    MQRC_SUB_INHIBITED: "Subscribing is inhibited for the topic.",
    MQRC_SELECTOR_ALWAYS_FALSE: "The selection string can never be true.",
    MQRC_HOST_NOT_AVAILABLE: "The host could not be reached.",
    MQRC_CHANNEL_CONFIG_ERROR: "The channel could not be agreed with the other side.",
    MQRC_UNKNOWN_CHANNEL_NAME: "No channel of this name is defined.",
    MQRC_PROPERTIES_DISABLED: "Message properties are not enabled.",
    MQRC_HMSG_NOT_AVAILABLE: "No more message handles are available.",
}

#: First definition wins, so the older second names (MQRC_TRUNCATED) are never shown.
_NAMES = {value: name for name, value in reversed(list(globals().items())) if name[:5] == "MQRC_"}

REASONS: dict[int, Reason] = {
    reason: Reason(_NAMES[reason], comp, text)
    for comp, texts in (
        (MQCC_OK, {MQRC_NONE: "Completed."}),
        (MQCC_WARNING, _WARNINGS),
        (MQCC_FAILED, _FAILURES),
    )
    for reason, text in texts.items()
}


def reason_name(reason: int) -> str:
    """Return the name of a reason code: "MQRC_Q_FULL"; for one not in the table "MQRC_<number>"."""
    known = REASONS.get(reason)
    return known.name if known else f"MQRC_{reason}"


def reason_text(reason: int) -> str:
    """Return what a reason code means in one sentence."""
    known = REASONS.get(reason)
    return known.text if known else f"Reason code {reason}."


def completion_of(reason: int) -> int:
    """Return the completion code that comes with a reason code; MQCC_FAILED for an unknown one.

    A few codes come as warning or failure (2003, 2241, 2242, 2479): here they are failures, and a
    call that only warns says so itself.
    """
    known = REASONS.get(reason)
    return known.comp if known else MQCC_FAILED
