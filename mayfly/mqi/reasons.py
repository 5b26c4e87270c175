"""The MQ reason codes: their numbers, names, completion codes and meanings.

`MQRC_x` is an int attribute here. The functions accept any number, known or not.
"""

from typing import NamedTuple

from mayfly.mqi import constants
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
MQRC_SELECTOR_LIMIT_EXCEEDED = 2066
MQRC_SELECTOR_ERROR = 2067
MQRC_SELECTOR_NOT_FOR_TYPE = 2068
MQRC_SIGNAL_REQUEST_ACCEPTED = 2070
MQRC_SYNCPOINT_NOT_AVAILABLE = 2072
MQRC_TRIGGER_CONTROL_ERROR = 2075
MQRC_TRIGGER_DEPTH_ERROR = 2076
MQRC_TRIGGER_MSG_PRIORITY_ERR = 2077
MQRC_TRIGGER_TYPE_ERROR = 2078
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
MQRC_CONVERTED_STRING_TOO_BIG = 2190
MQRC_TMC_ERROR = 2191
MQRC_STORAGE_MEDIUM_FULL = 2192
MQRC_PAGESET_FULL = MQRC_STORAGE_MEDIUM_FULL
MQRC_PAGESET_ERROR = 2193
MQRC_UNEXPECTED_ERROR = 2195
MQRC_UNKNOWN_XMIT_Q = 2196
MQRC_UNKNOWN_DEF_XMIT_Q = 2197
MQRC_DEF_XMIT_Q_TYPE_ERROR = 2198
MQRC_DEF_XMIT_Q_USAGE_ERROR = 2199
MQRC_MSG_MARKED_BROWSE_CO_OP = 2200
MQRC_CONNECTION_QUIESCING = 2202
MQRC_CONNECTION_STOPPING = 2203
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
MQRC_CD_ERROR = 2277
MQRC_CLIENT_CONN_ERROR = 2278
MQRC_FUNCTION_NOT_SUPPORTED = 2298
MQRC_MSG_TOKEN_ERROR = 2331
MQRC_RFH_ERROR = 2334
MQRC_RFH_STRING_ERROR = 2335
MQRC_BACKOUT_THRESHOLD_REACHED = 2362
MQRC_MSG_NOT_MATCHED = 2363
MQRC_KEY_REPOSITORY_ERROR = 2381
MQRC_SSL_INITIALIZATION_ERROR = 2393
MQRC_Q_INDEX_TYPE_ERROR = 2394
MQRC_JSSE_ERROR = 2397
MQRC_SSL_PEER_NAME_MISMATCH = 2398
MQRC_SSL_PEER_NAME_ERROR = 2399
MQRC_CLIENT_EXIT_LOAD_ERROR = 2406
MQRC_MSG_NOT_ALLOWED_IN_GROUP = 2417
MQRC_EPH_ERROR = 2420
MQRC_RFH_FORMAT_ERROR = 2421
MQRC_SD_ERROR = 2424
MQRC_TOPIC_STRING_ERROR = 2425
MQRC_STS_ERROR = 2426
MQRC_NO_SUBSCRIPTION = 2428
MQRC_SUBSCRIPTION_IN_USE = 2429
MQRC_STAT_TYPE_ERROR = 2430
MQRC_SUB_USER_DATA_ERROR = 2431
MQRC_SUB_ALREADY_EXISTS = 2432
MQRC_IDENTITY_MISMATCH = 2434
MQRC_DURABILITY_NOT_ALLOWED = 2436
MQRC_NO_RETAINED_MSG = 2437
MQRC_SRO_ERROR = 2438
MQRC_SUB_NAME_ERROR = 2440
MQRC_PROPERTY_NAME_ERROR = 2442
MQRC_SEGMENTATION_NOT_ALLOWED = 2443
MQRC_SELECTOR_SYNTAX_ERROR = 2459
MQRC_HMSG_ERROR = 2460
MQRC_CMHO_ERROR = 2461
MQRC_DMHO_ERROR = 2462
MQRC_SMPO_ERROR = 2463
MQRC_IMPO_ERROR = 2464
MQRC_PROPERTY_VALUE_TOO_BIG = 2469
MQRC_PROP_CONV_NOT_SUPPORTED = 2470
MQRC_PROPERTY_NOT_AVAILABLE = 2471
MQRC_PROP_NUMBER_FORMAT_ERROR = 2472
MQRC_PROPERTY_TYPE_ERROR = 2473
MQRC_PROPERTIES_TOO_BIG = 2478
MQRC_PUT_NOT_RETAINED = 2479
MQRC_DMPO_ERROR = 2481
MQRC_PD_ERROR = 2482
MQRC_MIXED_CONTENT_NOT_ALLOWED = 2498
MQRC_PUBLICATION_FAILURE = 2502
MQRC_SUB_INHIBITED = 2503
MQRC_SELECTOR_ALWAYS_FALSE = 2504
MQRC_DURABILITY_NOT_ALTERABLE = 2509
MQRC_TOPIC_NOT_ALTERABLE = 2510
MQRC_PROPERTY_NAME_LENGTH_ERR = 2513
MQRC_SELECTOR_INVALID_FOR_TYPE = 2516
MQRC_SELECTION_STRING_ERROR = 2519
MQRC_INVALID_DESTINATION = 2522
MQRC_SELECTOR_NOT_ALTERABLE = 2524
MQRC_PUBSUB_INHIBITED = 2531
MQRC_DEST_CLASS_NOT_ALTERABLE = 2533
MQRC_ACTION_ERROR = 2535
MQRC_CHANNEL_NOT_AVAILABLE = 2537
MQRC_HOST_NOT_AVAILABLE = 2538
MQRC_CHANNEL_CONFIG_ERROR = 2539
MQRC_UNKNOWN_CHANNEL_NAME = 2540
MQRC_LOOPING_PUBLICATION = 2541
MQRC_RECONNECTING = 2544
MQRC_RECONNECTED = 2545
MQRC_RECONNECT_QMID_MISMATCH = 2546
MQRC_RECONNECT_INCOMPATIBLE = 2547
MQRC_RECONNECT_FAILED = 2548
MQRC_CALL_INTERRUPTED = 2549
MQRC_NO_SUBS_MATCHED = 2550
MQRC_RECONNECT_Q_MGR_REQD = 2555
MQRC_RECONNECT_TIMED_OUT = 2556
MQRC_PROPERTIES_DISABLED = 2586
MQRC_HMSG_NOT_AVAILABLE = 2587
MQRC_CCDT_URL_ERROR = 2600

#: Name without MQRC_ -> meaning, of calls that have succeeded with a restriction (MQCC_WARNING).
_WARNINGS = {
    "ALREADY_CONNECTED": "This thread is connected to the queue manager already.",
    "CHAR_ATTRS_TOO_SHORT": "Not all character attributes fitted into the buffer.",
    "INT_ATTR_COUNT_TOO_SMALL": "Fewer integer attributes were returned than asked for.",
    "PRIORITY_EXCEEDS_MAXIMUM": "The priority is above the maximum; the maximum is used.",
    "SELECTOR_NOT_FOR_TYPE": "A selector does not apply to this type of queue.",
    "SIGNAL_REQUEST_ACCEPTED": "The signal request was accepted; the message comes later.",
    "TRUNCATED_MSG_ACCEPTED": "The buffer was too small; the message was returned cut short.",
    "TRUNCATED_MSG_FAILED": "The buffer is too small; the message stays where it is.",
    "UNKNOWN_REPORT_OPTION": "A report option is not known here; the message was accepted.",
    "FORMAT_ERROR": "The message cannot be converted: its format is not known.",
    "SOURCE_CCSID_ERROR": "The character set of the message is not known.",
    "TARGET_CCSID_ERROR": "The wanted character set is not known.",
    "NOT_CONVERTED": "The message was returned unconverted.",
    "CONVERTED_MSG_TOO_BIG": "The converted message does not fit the buffer.",
    "CONVERTED_STRING_TOO_BIG": "A converted text does not fit its field.",
    "NO_MSG_LOCKED": "There was no locked message to unlock.",
    "INCONSISTENT_CCSIDS": "Segments of the message differ in character set.",
    "INCONSISTENT_ENCODINGS": "Segments of the message differ in encoding.",
    "NO_SUBS_MATCHED": "The publication matched no subscription.",
    "RECONNECTING": "The connection is broken and being made again.",
    "RECONNECTED": "The connection has been made again.",
}

#: Name without MQRC_ -> meaning, of calls that have failed (MQCC_FAILED).
_FAILURES = {
    "ALIAS_BASE_Q_TYPE_ERROR": "The alias points at something that is not a queue it may name.",
    "BACKED_OUT": "The unit of work was backed out, not committed.",
    "BUFFER_ERROR": "The buffer parameter is not valid.",
    "BUFFER_LENGTH_ERROR": "The buffer length is negative.",
    "CHAR_ATTR_LENGTH_ERROR": "The length given for character attributes is not valid.",
    "CONNECTION_BROKEN": "The connection was lost during the call; its handles are dead.",
    "DATA_LENGTH_ERROR": "The data length parameter is not valid.",
    "DYNAMIC_Q_NAME_ERROR": "The name for the dynamic queue is not valid.",
    "ENVIRONMENT_ERROR": "The call is not possible in this environment.",
    "EXPIRY_ERROR": "The expiry is neither positive nor unlimited, or shorter than the delay.",
    "FEEDBACK_ERROR": "The feedback code is outside the ranges allowed on a put.",
    "GET_INHIBITED": "Gets are inhibited for the queue.",
    "HANDLE_NOT_AVAILABLE": "No more handles: the limit of the queue manager is reached.",
    "HCONN_ERROR": "The connection handle is not valid.",
    "HOBJ_ERROR": "The object handle is not valid.",
    "INHIBIT_VALUE_ERROR": "The value for an inhibit attribute is not valid.",
    "INT_ATTR_COUNT_ERROR": "The number of integer attributes is negative.",
    "SYNCPOINT_LIMIT_REACHED": "The unit of work holds as many messages as are allowed.",
    "MAX_CONNS_LIMIT_REACHED": "The queue manager has as many connections as are allowed.",
    "MD_ERROR": "The message descriptor has a wrong structure id or version.",
    "MISSING_REPLY_TO_Q": "A reply or report was asked for, but no reply-to queue is named.",
    "MSG_TYPE_ERROR": "The message type is outside the system and application ranges.",
    "MSG_TOO_BIG_FOR_Q": "The message is longer than the queue allows.",
    "MSG_TOO_BIG_FOR_Q_MGR": "The message is longer than the queue manager allows.",
    "NO_MSG_AVAILABLE": "No message to return.",
    "NO_MSG_UNDER_CURSOR": "The browse cursor is not on a message that can be returned.",
    "NOT_AUTHORIZED": "The user lacks the authority for this.",
    "NOT_OPEN_FOR_BROWSE": "The queue was not opened for browse.",
    "NOT_OPEN_FOR_INPUT": "The queue was not opened for input.",
    "NOT_OPEN_FOR_INQUIRE": "The object was not opened for inquire.",
    "NOT_OPEN_FOR_OUTPUT": "The object was not opened for output.",
    "NOT_OPEN_FOR_SET": "The object was not opened for set.",
    "OBJECT_CHANGED": "The definition of the object changed after it was opened.",
    "OBJECT_IN_USE": "The object is open in a way that rules this out.",
    "OBJECT_TYPE_ERROR": "The object type is not valid.",
    "OD_ERROR": "The object descriptor has a wrong structure id or version.",
    "OPTION_NOT_VALID_FOR_TYPE": "The option does not suit this type of object.",
    "OPTIONS_ERROR": "The options are unknown or rule each other out.",
    "PERSISTENCE_ERROR": "The persistence is not 0, 1 or 2.",
    "PERSISTENT_NOT_ALLOWED": "A temporary dynamic queue holds no persistent messages.",
    "PRIORITY_ERROR": "The priority is negative and is not a special value.",
    "PUT_INHIBITED": "Puts are inhibited somewhere on the way to the queue.",
    "Q_DELETED": "The queue was deleted after it was opened.",
    "Q_FULL": "The queue holds as many messages as it may.",
    "Q_NOT_EMPTY": "The queue is not empty, or has uncommitted changes.",
    "Q_SPACE_NOT_AVAILABLE": "There is no disk space for the queue.",
    "Q_TYPE_ERROR": "This type of queue does not suit the call.",
    "Q_MGR_NAME_ERROR": "No queue manager of this name is known.",
    "Q_MGR_NOT_AVAILABLE": "The queue manager is not running or cannot be reached.",
    "REPORT_OPTIONS_ERROR": "The report options hold a bit that must be rejected.",
    "SECURITY_ERROR": "The security check itself failed.",
    "SELECTOR_COUNT_ERROR": "The number of selectors is not valid.",
    "SELECTOR_LIMIT_EXCEEDED": "A call names more than 256 selectors.",
    "SELECTOR_ERROR": "A selector is not one the object has.",
    "SYNCPOINT_NOT_AVAILABLE": "Syncpoint is not available here.",
    "TRIGGER_CONTROL_ERROR": "The trigger control is neither off nor on.",
    "TRIGGER_DEPTH_ERROR": "The trigger depth is not above zero.",
    "TRIGGER_MSG_PRIORITY_ERR": "The trigger priority is not one that messages have.",
    "TRIGGER_TYPE_ERROR": "The trigger type is not known.",
    "UNKNOWN_ALIAS_BASE_Q": "The queue the alias points at does not exist.",
    "UNKNOWN_OBJECT_NAME": "No object of this name is defined here.",
    "UNKNOWN_OBJECT_Q_MGR": "The queue manager named in the object descriptor is not valid.",
    "UNKNOWN_REMOTE_Q_MGR": "No transmission queue leads to this queue manager.",
    "WAIT_INTERVAL_ERROR": "The wait interval is negative and not unlimited.",
    "XMIT_Q_TYPE_ERROR": "The transmission queue is not a local queue.",
    "XMIT_Q_USAGE_ERROR": "The transmission queue is not defined for transmission.",
    "NOT_OPEN_FOR_PASS_ALL": "The queue was not opened to pass all context.",
    "NOT_OPEN_FOR_PASS_IDENT": "The queue was not opened to pass identity context.",
    "NOT_OPEN_FOR_SET_ALL": "The queue was not opened to set all context.",
    "NOT_OPEN_FOR_SET_IDENT": "The queue was not opened to set identity context.",
    "CONTEXT_HANDLE_ERROR": "The queue handle named for context is not valid or saves none.",
    "CONTEXT_NOT_AVAILABLE": "No context has been saved for the queue handle yet.",
    "OBJECT_ALREADY_EXISTS": "An object of this name exists already.",
    "OBJECT_DAMAGED": "The object is damaged.",
    "RESOURCE_PROBLEM": "The system is out of a resource.",
    "BO_ERROR": "The begin options structure is not valid.",
    "OPEN_FAILED": "The object could not be opened; another reason says why.",
    "CNO_ERROR": "The connect options structure is not valid.",
    "DLH_ERROR": "The dead-letter header is not valid.",
    "HEADER_ERROR": "A header in the message is not valid.",
    "IIH_ERROR": "The IMS header is not valid.",
    "OBJECT_NAME_ERROR": "The object name is not allowed here.",
    "OBJECT_Q_MGR_NAME_ERROR": "The queue manager name is not allowed here.",
    "RECS_PRESENT_ERROR": "The number of records in the structure is not valid.",
    "Q_MGR_QUIESCING": "The queue manager is quiescing.",
    "Q_MGR_STOPPING": "The queue manager is stopping.",
    "PMO_ERROR": "The put options structure has a wrong structure id or version.",
    "REMOTE_Q_NAME_ERROR": "The remote queue definition is not complete.",
    "INCONSISTENT_PERSISTENCE": "Messages of one group or segment set differ in persistence.",
    "GMO_ERROR": "The get options structure has a wrong structure id or version.",
    "CLUSTER_RESOLUTION_ERROR": "The cluster queue could not be resolved.",
    "TMC_ERROR": "The character form of the trigger message is not valid.",
    "PUBSUB_INHIBITED": "Publish/subscribe is switched off for the queue manager.",
    "STORAGE_MEDIUM_FULL": "The log or the storage is full.",
    "PAGESET_ERROR": "The page set could not be used.",
    "UNEXPECTED_ERROR": "Something failed inside the queue manager.",
    "UNKNOWN_XMIT_Q": "The transmission queue named in the definition does not exist.",
    "UNKNOWN_DEF_XMIT_Q": "The default transmission queue does not exist.",
    "MSG_MARKED_BROWSE_CO_OP": "The message is marked by a co-operating browser.",
    "CONNECTION_QUIESCING": "The connection is quiescing.",
    "CONNECTION_NOT_AUTHORIZED": "The connection is not authorized for this.",
    "MSG_TOO_BIG_FOR_CHANNEL": "The message is longer than the channel allows.",
    "CALL_IN_PROGRESS": "Another call with this handle is in progress.",
    "UNIT_OF_WORK_NOT_STARTED": "No unit of work has been started.",
    "INCOMPLETE_GROUP": "A group of messages is left incomplete.",
    "INCOMPLETE_MSG": "A message in segments is left incomplete.",
    "INCONSISTENT_UOW": "The group or message is partly in a unit of work and partly not.",
    "INVALID_MSG_UNDER_CURSOR": "The message under the cursor does not fit the order of groups.",
    "MATCH_OPTIONS_ERROR": "The match options are unknown or do not go together.",
    "MDE_ERROR": "The descriptor extension is not valid.",
    "MSG_FLAGS_ERROR": "The message flags are unknown or do not go together.",
    "MSG_SEQ_NUMBER_ERROR": "The message sequence number is outside 1 to 999999999.",
    "OFFSET_ERROR": "The segment offset is out of range.",
    "ORIGINAL_LENGTH_ERROR": "The original length is not valid.",
    "SEGMENT_LENGTH_ZERO": "A segment holds no data.",
    "UOW_NOT_AVAILABLE": "The queue manager cannot start a unit of work.",
    "WRONG_GMO_VERSION": "The options need a newer version of the get options.",
    "WRONG_MD_VERSION": "The call needs version 2 of the message descriptor.",
    "GROUP_ID_ERROR": "The group id is not valid or missing.",
    "INCONSISTENT_BROWSE": "Browse and get are mixed within one logical sequence.",
    "DEF_XMIT_Q_TYPE_ERROR": "The default transmission queue is not a local queue.",
    "DEF_XMIT_Q_USAGE_ERROR": "The default transmission queue is not defined for transmission.",
    "XQH_ERROR": "The transmission queue header is not valid.",
    "TM_ERROR": "The trigger message is not valid.",
    "NO_DESTINATIONS_AVAILABLE": "The cluster queue has no instance that can take the message.",
    "FUNCTION_NOT_SUPPORTED": "The queue manager does not support the function.",
    "MSG_TOKEN_ERROR": "A message token may not be used here.",
    "RFH_ERROR": "The rules and formatting header is not valid.",
    "RFH_STRING_ERROR": "The text of the rules and formatting header is not valid.",
    "BACKOUT_THRESHOLD_REACHED": "The message was backed out as often as allowed.",
    "MSG_NOT_MATCHED": "The message matched no consumer.",
    "Q_INDEX_TYPE_ERROR": "The queue is not indexed as the call needs it.",
    "MSG_NOT_ALLOWED_IN_GROUP": "The message may not be part of a group or a segment.",
    "EPH_ERROR": "The header of the embedded command is not valid.",
    "RFH_FORMAT_ERROR": "A folder of the rules and formatting header is not valid.",
    "SD_ERROR": "The subscription descriptor is not valid.",
    "TOPIC_STRING_ERROR": "The topic string is not valid.",
    "NO_SUBSCRIPTION": "No subscription of this name exists.",
    "SUBSCRIPTION_IN_USE": "The subscription is in use.",
    "SUB_USER_DATA_ERROR": "The user data of the subscription cannot be read.",
    "SUB_ALREADY_EXISTS": "A subscription of this name exists already.",
    "IDENTITY_MISMATCH": "Another user owns the subscription and shares it with nobody.",
    "DURABILITY_NOT_ALLOWED": "The topic takes no durable subscriptions.",
    "NO_RETAINED_MSG": "No retained publication exists.",
    "STS_ERROR": "The status structure is not valid.",
    "STAT_TYPE_ERROR": "The type of status is not known.",
    "SRO_ERROR": "The subscription request options are not valid.",
    "SUB_NAME_ERROR": "The subscription name is missing or not valid.",
    "PROPERTY_NAME_ERROR": "The property name is not valid.",
    "SEGMENTATION_NOT_ALLOWED": "A message with properties of MQ's own has no segments.",
    "SELECTION_STRING_ERROR": "The selection string is too long or cannot be read.",
    "SELECTOR_SYNTAX_ERROR": "The selection string has a syntax error.",
    "HMSG_ERROR": "The message handle is not valid.",
    "PROPERTY_NOT_AVAILABLE": "The property does not exist.",
    "CMHO_ERROR": "The options for a new message handle have a wrong structure id or version.",
    "DMHO_ERROR": "The options for deleting a message handle have a wrong id or version.",
    "SMPO_ERROR": "The options for setting a property have a wrong structure id or version.",
    "IMPO_ERROR": "The options for inquiring a property have a wrong structure id or version.",
    "PROPERTY_VALUE_TOO_BIG": "The value of the property is longer than the buffer.",
    "PROP_CONV_NOT_SUPPORTED": "A property of this type is not converted to the wanted one.",
    "PROP_NUMBER_FORMAT_ERROR": "The value is not a number of the wanted type.",
    "PROPERTY_TYPE_ERROR": "The property type is not valid, or the value is not of it.",
    "PROPERTIES_TOO_BIG": "The properties of the message are longer than is allowed.",
    "DMPO_ERROR": "The options for deleting a property have a wrong structure id or version.",
    "PD_ERROR": "The property descriptor is not valid.",
    "MIXED_CONTENT_NOT_ALLOWED": "A name would stand for a property and for a group of them.",
    "PROPERTY_NAME_LENGTH_ERR": "The property name is empty or too long.",
    "ACTION_ERROR": "The action asked for is not known.",
    "PUT_NOT_RETAINED": "The publication could not be retained.",
    "LOOPING_PUBLICATION": "The publication has been here before: queue managers form a ring.",
    "PUBLICATION_FAILURE": "The publication did not reach the subscribers it must reach.",
    "SUB_INHIBITED": "Subscribing is inhibited for the topic.",
    "SELECTOR_ALWAYS_FALSE": "The selection string can never be true.",
    "DURABILITY_NOT_ALTERABLE": "A subscription stays durable, or not, as it was made.",
    "TOPIC_NOT_ALTERABLE": "The topic of a subscription cannot be changed.",
    "SELECTOR_INVALID_FOR_TYPE": "Only a queue open for input or browse has a selection string.",
    "INVALID_DESTINATION": "The queue of the subscription cannot be opened.",
    "SELECTOR_NOT_ALTERABLE": "The selection string of a subscription cannot be changed.",
    "DEST_CLASS_NOT_ALTERABLE": "A subscription stays managed, or not, as it was made.",
    "HOST_NOT_AVAILABLE": "The host could not be reached.",
    "CHANNEL_CONFIG_ERROR": "The channel could not be agreed with the other side.",
    "UNKNOWN_CHANNEL_NAME": "No channel of this name is defined.",
    "PROPERTIES_DISABLED": "Message properties are not enabled.",
    "HMSG_NOT_AVAILABLE": "No more message handles are available.",
    "CONNECTION_STOPPING": "The connection is ending.",
    "CD_ERROR": "The channel definition is not valid.",
    "CLIENT_CONN_ERROR": "The fields that describe a client connection are not valid.",
    "KEY_REPOSITORY_ERROR": "The key repository cannot be used.",
    "SSL_INITIALIZATION_ERROR": "The TLS connection could not be set up.",
    "JSSE_ERROR": "The TLS connection of a JMS program failed.",
    "SSL_PEER_NAME_MISMATCH": "The certificate of the other side has not the name that is wanted.",
    "SSL_PEER_NAME_ERROR": "The wanted name of a certificate is not valid.",
    "CLIENT_EXIT_LOAD_ERROR": "An exit of the channel cannot be run in this client.",
    "CHANNEL_NOT_AVAILABLE": "The channel is stopped or has no instance left.",
    "RECONNECT_QMID_MISMATCH": "The queue manager that answers is another one than before.",
    "RECONNECT_INCOMPATIBLE": "A connection that reconnects does not take this option.",
    "RECONNECT_FAILED": "What was open could not be opened again after reconnecting.",
    "CALL_INTERRUPTED": "The connection broke in the midst of a call: its outcome is not known.",
    "RECONNECT_Q_MGR_REQD": "This option is for those who reconnect to the same queue manager.",
    "RECONNECT_TIMED_OUT": "No queue manager was reached before the time to reconnect had passed.",
    "CCDT_URL_ERROR": "The address of the client channel definition table is not valid.",
}


class Reason(NamedTuple):
    """Name, completion code and meaning of a reason code.

    A few codes come as a warning or a failure (2003, 2241, 2242, 2479). Here they are failures; a
    call that only warns gives the completion code itself.
    """

    name: str
    comp: int
    text: str


REASONS: dict[int, Reason] = {
    globals()[f"MQRC_{name}"]: Reason(f"MQRC_{name}", comp, text)
    for comp, texts in (
        (MQCC_OK, {"NONE": "Completed."}),
        (MQCC_WARNING, _WARNINGS),
        (MQCC_FAILED, _FAILURES),
    )
    for name, text in texts.items()
}


def reason_name(reason: int) -> str:
    """Return the name of a reason code, "MQRC_Q_FULL"; "MQRC_<number>" for an unknown one."""
    known = REASONS.get(reason)
    return known.name if known else f"MQRC_{reason}"


def reason_text(reason: int) -> str:
    """Return the meaning of a reason code in one sentence; "Reason code N." for an unknown one."""
    known = REASONS.get(reason)
    return known.text if known else f"Reason code {reason}."


#: Feedback of reports and dead letters by number; ends of ranges are no causes.
_FEEDBACK_NAMES = {
    value: name
    for name, value in vars(constants).items()
    if name.startswith("MQFB_") and not name.endswith(("_FIRST", "_LAST")) and value
}


def cause_names() -> dict[int, str]:
    """Return every feedback and reason code with its name, as :func:`cause_name` gives it."""
    return {code: known.name for code, known in REASONS.items()} | _FEEDBACK_NAMES


def cause_name(reason: int) -> str:
    """Return the name of a Feedback or reason code: ``MQFB_EXPIRATION``, ``MQRC_Q_FULL``.

    An unknown number gives ``MQRC_<number>``.
    """
    return _FEEDBACK_NAMES.get(reason) or reason_name(reason)
