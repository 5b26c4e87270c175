-- Schema version 2 (PRAGMA user_version).
-- To change it: raise SCHEMA_VERSION and add the step in migrations.py, keep a folder
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
    msg_hash INTEGER,                  -- NULL while staged under an id that tells the key
    correl_hash INTEGER,               -- NULL: CorrelId is all zeros
    backout_count INTEGER NOT NULL,
    msg_id BLOB NOT NULL,
    correl_id BLOB NOT NULL,
    origin_id BLOB,                    -- MsgId of the life this one continues
    descriptor BLOB NOT NULL,          -- mqi/descriptor.py
    body BLOB NOT NULL,
    -- Only on the staging queue, where the row holds the original message: see engine/staging.py.
    target TEXT,                       -- the name it was put to; NULL: its header was damaged
    target_number INTEGER,             -- the queue that name led to at the put
    ttl_from_release INTEGER           -- 1: its life begins at the delivery time
);
CREATE INDEX message_by_msg_id ON message (msg_hash) WHERE msg_hash IS NOT NULL;
CREATE INDEX message_by_correl_id ON message (correl_hash) WHERE correl_hash IS NOT NULL;
CREATE INDEX message_by_deadline ON message (expire_at_ms) WHERE expire_at_ms IS NOT NULL;

-- Totals of a queue since its creation; they change in the transaction of their messages.
CREATE TABLE counter (
    queue_id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    puts INTEGER NOT NULL,
    present INTEGER NOT NULL,          -- committed and on the queue
    present_volatile INTEGER NOT NULL, -- of these, non-persistent: gone after a crash
    ended TEXT NOT NULL                -- JSON list in the order of lifetime.life.OUTCOMES
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
    ended TEXT
);
-- What became of a delayed message, by the MsgId its sender knows.
CREATE INDEX ledger_by_delayed_id ON ledger (correl_id)
    WHERE queue = 'SYSTEM.DDELAY.LOCAL.QUEUE';

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
