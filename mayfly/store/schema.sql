-- Schema version 11 (PRAGMA user_version).
-- To change it: raise SCHEMA_VERSION and add the step in database.py, keep a folder
-- written by the old version under tests/store/fixtures, and add the test that opens it.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

CREATE TABLE object (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    id INTEGER NOT NULL,               -- the queue number in message keys; 0 for what holds no messages
    attributes TEXT NOT NULL,          -- JSON: keyword -> value
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- The key says queue, priority and sequence, or, negative, delivery time and order (keys.py), so
-- that neither get order nor due order needs an index. Ids are indexed by 8 bytes (keys.id_hash).
CREATE TABLE message (
    k INTEGER PRIMARY KEY,
    put_ms INTEGER NOT NULL,
    deliver_at_ms INTEGER,             -- NULL: at once
    expire_at_ms INTEGER,              -- NULL: never
    msg_hash INTEGER,                  -- NULL: its id tells the key
    correl_hash INTEGER,               -- NULL: CorrelId is all zeros
    backout_count INTEGER NOT NULL,
    msg_id BLOB NOT NULL,
    correl_id BLOB NOT NULL,
    origin_id BLOB,                    -- MsgId of the life this one continues; NULL: none
    descriptor BLOB NOT NULL,          -- mqi/descriptor.py
    body BLOB NOT NULL,
    topic TEXT,                        -- the topic string of a publication; NULL: put to a queue
    -- These five are for the staging queue, where the row holds the original message
    -- (engine/delay/staging.py).
    target_number INTEGER,             -- the queue that counts it as staged; NULL: none does
    ttl_from_release INTEGER,          -- 1: its life begins at the delivery time; 0: the caps of its
                                       -- queue are asked then; NULL: both were settled at the put
    target TEXT,                       -- the name it was put to; NULL: its header is damaged
    sub_id BLOB,                       -- the subscription that the copy of a publication is for
    shown_id BLOB,                     -- the MsgId that the staging queue shows
    only_here INTEGER,                 -- 1: a retained publication that goes to no neighbour
    capped_by TEXT,                    -- the CAPEXPRY that shortened its life (lifetime/caps.py)
    released_by TEXT,                  -- the user who released it before its delivery time
    content INTEGER                    -- the row of content that has MsgId with its hash, descriptor,
                                       -- data and topic; here these are empty then. NULL: it is all here
);
CREATE INDEX message_by_msg_id ON message (msg_hash) WHERE msg_hash IS NOT NULL;
CREATE INDEX message_by_correl_id ON message (correl_hash) WHERE correl_hash IS NOT NULL;
CREATE INDEX message_by_deadline ON message (expire_at_ms) WHERE expire_at_ms IS NOT NULL;
CREATE INDEX message_by_content ON message (content) WHERE content IS NOT NULL;

-- The values that copies of one publication share. A row goes with the last copy, by a trigger that
-- comes with the first content (contents.py).
CREATE TABLE content (
    id INTEGER PRIMARY KEY,
    msg_hash INTEGER NOT NULL,         -- another publication with the same one has whole copies
    msg_id BLOB NOT NULL,
    descriptor BLOB NOT NULL,
    body BLOB NOT NULL,
    topic TEXT NOT NULL
);
CREATE UNIQUE INDEX content_by_msg_id ON content (msg_hash);
-- Messages with all that they have. A copy without its content is damage: lost_content raises it.
CREATE VIEW whole_message AS
SELECT m.k, m.put_ms, m.deliver_at_ms, m.expire_at_ms,
    CASE WHEN m.content IS NULL THEN m.msg_hash ELSE c.msg_hash END AS msg_hash,
    m.correl_hash, m.backout_count,
    CASE WHEN m.content IS NULL THEN m.msg_id ELSE c.msg_id END AS msg_id,
    m.correl_id, m.origin_id,
    CASE WHEN m.content IS NULL THEN m.descriptor ELSE c.descriptor END AS descriptor,
    CASE WHEN m.content IS NULL THEN m.body
        ELSE coalesce(c.body, lost_content(m.content)) END AS body,
    CASE WHEN m.content IS NULL THEN m.topic ELSE c.topic END AS topic,
    m.target_number, m.ttl_from_release, m.target, m.sub_id, m.shown_id, m.only_here, m.capped_by,
    m.released_by, m.content,
    -- SQLite tells the length of a column without reading it.
    CASE WHEN m.content IS NULL THEN length(m.body)
        ELSE coalesce(length(c.body), lost_content(m.content)) END AS body_bytes
FROM message m LEFT JOIN content c ON c.id = m.content;

-- Totals of a queue since its creation, as they stood at a position of the ledger. Of what came
-- after, only ends of persistent messages are missing, whose lives tell.
CREATE TABLE counter (
    queue_id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    puts INTEGER NOT NULL,
    present INTEGER NOT NULL,          -- committed and on the queue
    present_volatile INTEGER NOT NULL, -- of these, non-persistent: gone after a crash
    ended TEXT NOT NULL,               -- JSON: count by outcome (contracts/outcomes.py)
    position INTEGER NOT NULL DEFAULT 0
);

-- Lives and balances by position (lifetime.life.LEDGER_COLUMNS); rows never change.
CREATE TABLE ledger (
    position INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    queue TEXT NOT NULL,
    msg_id BLOB,
    correl_id BLOB,
    origin_id BLOB,
    put_ms INTEGER,
    deliver_at_ms INTEGER,
    expire_at_ms INTEGER,
    ended_ms INTEGER NOT NULL,
    outcome TEXT,
    reason INTEGER,
    priority INTEGER,
    persistent INTEGER,
    body_bytes INTEGER,
    report INTEGER,
    reply_to_q TEXT,
    backout_count INTEGER,
    user_identifier TEXT,
    puts INTEGER,
    present INTEGER,
    ended TEXT,                        -- as in counter
    capped_by TEXT,                    -- these four:
    detected_by TEXT,                       -- contracts/endings.py
    ended_by TEXT,
    ended_program TEXT
);
-- What became of a delayed message, by the MsgId its sender knows.
CREATE INDEX ledger_by_delayed_id ON ledger (correl_id)
    WHERE queue = 'SYSTEM.DDELAY.LOCAL.QUEUE';

-- Hashes of the ids of lives, by blocks of positions (ledger.py).
CREATE TABLE ledger_ids (
    k INTEGER PRIMARY KEY,
    hashes BLOB NOT NULL               -- 4 bytes each, ascending
);

-- Who has changed the schedule of delayed messages.
CREATE TABLE schedule_audit (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    user TEXT NOT NULL,
    action TEXT NOT NULL,
    msg_id BLOB NOT NULL,              -- empty when a filter chose the messages
    detail TEXT NOT NULL,
    receipt TEXT NOT NULL,
    message_count INTEGER NOT NULL
);

-- Rows that a pipeline has sent and not yet put (engine/bulk/stages.py); one stage per attempt of a task.
CREATE TABLE stage (
    id INTEGER PRIMARY KEY,
    query TEXT NOT NULL,
    batch INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    attempt TEXT NOT NULL,
    begun_ms INTEGER NOT NULL,
    row_count INTEGER,                 -- NULL while it is written
    place INTEGER                      -- in the winning set of its batch; NULL: in none
);
CREATE UNIQUE INDEX stage_by_place ON stage (query, batch, partition, attempt);
CREATE TABLE stage_blob (
    id INTEGER PRIMARY KEY,
    stage_id INTEGER NOT NULL,
    row_count INTEGER NOT NULL,
    rows BLOB NOT NULL
);
CREATE INDEX stage_blob_by_stage ON stage_blob (stage_id);
-- The newest batch of each writing query whose winning stages are named (store/stages.py).
CREATE TABLE stage_query (
    query TEXT PRIMARY KEY,
    batch INTEGER NOT NULL,
    is_done INTEGER NOT NULL,
    put_count INTEGER NOT NULL,
    expired_count INTEGER NOT NULL,
    refused_count INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- Readers of queues in bulk; each belongs to one queue (engine/claims).
CREATE TABLE consumer (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    epoch INTEGER NOT NULL,            -- raised by each attach: who has a lower one is refused
    last_number INTEGER NOT NULL,      -- the newest claim
    last_row INTEGER NOT NULL,         -- the newest row, which is the last one of that claim
    closed_number INTEGER NOT NULL,    -- claims up to this one are ended or released
    released_after INTEGER NOT NULL,   -- of these, (after, until] were released last
    released_until INTEGER NOT NULL
);
-- Open claims.
CREATE TABLE claim (
    consumer_id INTEGER NOT NULL,
    number INTEGER NOT NULL,           -- from 1 on; one is left out after a release
    after_row INTEGER NOT NULL,        -- its rows are those after this one up to the last
    last_row INTEGER NOT NULL,
    body_bytes INTEGER NOT NULL,
    claimed_ms INTEGER NOT NULL,
    PRIMARY KEY (consumer_id, number)
) WITHOUT ROWID;
-- The messages they hold, non-persistent ones included; the rest as in the table message.
CREATE TABLE claimed (
    r INTEGER PRIMARY KEY,             -- consumer and row (store/claimed.py)
    persistent INTEGER NOT NULL,
    k INTEGER NOT NULL,                -- its place on the queue
    put_ms INTEGER NOT NULL,
    deliver_at_ms INTEGER,
    expire_at_ms INTEGER,
    msg_hash INTEGER,
    correl_hash INTEGER,
    backout_count INTEGER NOT NULL,
    msg_id BLOB NOT NULL,
    correl_id BLOB NOT NULL,
    origin_id BLOB,
    descriptor BLOB NOT NULL,
    body BLOB NOT NULL,
    topic TEXT,
    capped_by TEXT
);
-- What a claim of the staging queue holds: its messages stay where they are (engine/claims/claims.py).
CREATE TABLE due_claim (
    consumer_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    keys BLOB NOT NULL                 -- 8 bytes each, in due order (store/claimed.py)
);
CREATE UNIQUE INDEX due_claim_by_number ON due_claim (consumer_id, number);

-- How far each channel has come (store/channels.py): this side's part of moving a batch exactly once.
CREATE TABLE channel (
    name TEXT NOT NULL,
    is_sender INTEGER NOT NULL,
    partner TEXT NOT NULL,             -- the queue manager that sends; empty: this row is the channel's own
    sequence INTEGER NOT NULL,         -- of the last message that both sides are sure of
    luw TEXT NOT NULL,                 -- the batch it was in
    is_started INTEGER NOT NULL,       -- 1: goes on when the queue manager is opened again, 2: is stopped
    is_reset INTEGER NOT NULL,         -- 1: the receiver is to take the sequence from here
    doubt_sequence INTEGER NOT NULL,   -- of the last message of the batch in doubt
    doubt_luw TEXT NOT NULL,           -- empty: nothing is in doubt
    doubt_keys BLOB NOT NULL,          -- its messages, 8 bytes each
    PRIMARY KEY (name, is_sender, partner)
) WITHOUT ROWID;

-- In the store of a queue-sharing group: what members have yet to change in theirs (store/prepare_records.py).
CREATE TABLE intent (
    number INTEGER PRIMARY KEY,
    member TEXT NOT NULL,
    changes TEXT NOT NULL              -- a unit as JSON
);
-- In that of a member: which of these it has carried out.
CREATE TABLE carried_out (
    number INTEGER PRIMARY KEY
);
