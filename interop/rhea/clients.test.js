// rhea, the client for JavaScript: the first word of a test is a row of the table in docs/AMQP.md.
import assert from "node:assert/strict";
import net from "node:net";
import test, { after, before } from "node:test";
import rhea from "rhea";

const server = new URL(process.env.AMQP_URL.replace("amqp:", "http:"));
const once = (emitter, event) => new Promise((resolve) => emitter.once(event, resolve));
let connection;

before(async () => {
  connection = await connected();
});

after(() => connection.close());

async function connected(id, password = process.env.AMQP_PASSWORD) {
  const opened = rhea.create_container({ id }).connect({
    host: server.hostname,
    port: Number(server.port),
    username: process.env.AMQP_USER,
    password,
    reconnect: false,
  });
  opened.on("disconnected", () => {});
  await Promise.race([
    once(opened, "connection_open"),
    once(opened, "connection_error").then((context) => {
      throw context.connection.error ?? new Error("not connected");
    }),
    once(opened, "disconnected").then(() => {
      throw new Error("not connected");
    }),
  ]);
  return opened;
}

/** Send the operator's channel a line: an MQSC command, or time that is to pass. */
async function operate(line) {
  const [host, port] = process.env.MAYFLY_CONTROL.split(":");
  const socket = net.connect(Number(port), host);
  socket.write(`${line}\n`);
  let answer = "";
  for await (const data of socket) {
    answer += data;
  }
  assert.equal(answer.trim(), "ok");
}

/** Define an empty queue for a test. */
async function queueFor(name) {
  const queue = `DEV.RHEA.${name}`;
  await operate(`mqsc DEFINE QLOCAL('${queue}') REPLACE`);
  await operate(`mqsc CLEAR QLOCAL('${queue}')`);
  return queue;
}

/** Send a message and return the server's outcome. */
async function send(address, message, from = connection) {
  const sender = from.open_sender(address);
  await once(sender, "sendable");
  sender.send(typeof message === "string" ? { body: message } : message);
  const { delivery } = await Promise.race([once(sender, "accepted"), once(sender, "rejected")]);
  sender.close();
  return delivery.remote_state;
}

async function receiverOf(source, options = {}, from = connection) {
  const receiver = from.open_receiver({ source, credit_window: 0, autoaccept: false, ...options });
  const error = once(receiver, "receiver_error").then(() => {
    throw receiver.error;
  });
  await Promise.race([once(receiver, "receiver_open"), error]);
  // An attach that is refused opens first; the detach follows in the same bytes.
  await new Promise((resolve) => setImmediate(resolve));
  if (receiver.error) {
    throw receiver.error;
  }
  error.catch(() => {});
  return receiver;
}

/** Take the next message, with its delivery. */
async function take(receiver) {
  const found = once(receiver, "message");
  receiver.drain = false;
  receiver.add_credit(1);
  return found;
}

async function expect(receiver, body) {
  const found = await take(receiver);
  assert.equal(found.message.body, body);
  return found;
}

/** Let the server say that there is no message. */
async function expectNone(receiver) {
  const found = Promise.race([
    once(receiver, "message"),
    once(receiver, "receiver_drained").then(() => null),
  ]);
  receiver.drain = true;
  receiver.add_credit(1);
  assert.equal(await found, null);
}

const accept = ({ delivery }) => delivery.accept();

test("delay: a delayed message comes at its time", async () => {
  const queue = await queueFor("DELAY");
  await send(queue, { body: "later", message_annotations: { "x-opt-delivery-delay": 5000 } });
  const receiver = await receiverOf(queue);
  await operate("advance 4999");
  await expectNone(receiver);
  await operate("advance 1");
  const found = await expect(receiver, "later");
  const at = found.message.message_annotations["x-opt-delivery-time"];
  assert.equal(at - found.message.creation_time.getTime(), 5000);
  accept(found);
});

test("refusal: a delay below 0, and a life shorter than the delay", async () => {
  const queue = await queueFor("REFUSAL");
  for (const wrong of [
    { message_annotations: { "x-opt-delivery-delay": -1 } },
    { ttl: 1000, message_annotations: { "x-opt-delivery-delay": 2000 } },
  ]) {
    const state = await send(queue, { body: "x", ...wrong });
    assert.equal(state.error.condition, "amqp:invalid-field");
  }
});

test("life: the rest of a life arrives", async () => {
  const queue = await queueFor("LIFE");
  await send(queue, { body: "x", ttl: 60000, durable: true });
  await operate("advance 20000");
  const found = await expect(await receiverOf(queue), "x");
  assert.equal(found.message.ttl, 40000);
  accept(found);
});

test("expiry: an expired message does not come", async () => {
  const queue = await queueFor("EXPIRY");
  await send(queue, { body: "x", ttl: 1000 });
  await operate("advance 1000");
  await expectNone(await receiverOf(queue));
});

test("properties: headers and properties arrive", async () => {
  const queue = await queueFor("PROPERTIES");
  const properties = { count: 5, colour: "red", sunny: true, half: 1.5 };
  await send(queue, {
    body: "x",
    durable: true,
    priority: 7,
    message_id: "mine",
    correlation_id: "c-1",
    subject: "kind",
    application_properties: properties,
  });
  const found = await expect(await receiverOf(queue), "x");
  const { durable, priority, message_id, correlation_id, subject } = found.message;
  assert.deepEqual(
    [durable, priority, message_id, correlation_id, subject],
    [true, 7, "mine", "c-1", "kind"],
  );
  assert.deepEqual(found.message.application_properties, properties);
  accept(found);
});

test("bodies: text, numbers, lists, maps and bytes arrive", async () => {
  const queue = await queueFor("BODIES");
  const receiver = await receiverOf(queue);
  for (const body of ["text", 5, true, [1, "two"], { one: 1 }]) {
    await send(queue, { body });
    const found = await take(receiver);
    assert.deepEqual(found.message.body, body);
    accept(found);
  }
  const bytes = Buffer.from([0, 1, 255]);
  await send(queue, { body: rhea.message.data_section(bytes) });
  const found = await take(receiver);
  assert.deepEqual(found.message.body.content, bytes);
  accept(found);
});

test("drain: an empty queue is told", async () => {
  const queue = await queueFor("DRAIN");
  const receiver = await receiverOf(queue);
  for (let round = 0; round < 3; round += 1) {
    await expectNone(receiver);
    await send(queue, "x");
    accept(await expect(receiver, "x"));
  }
});

test("outcomes: released, modified and rejected", async () => {
  const queue = await queueFor("OUTCOMES");
  const dead = await queueFor("DEAD");
  await operate(`mqsc ALTER QMGR DEADQ('${dead}')`);
  await send(queue, "x");
  const receiver = await receiverOf(queue);
  (await expect(receiver, "x")).delivery.release({ delivery_failed: false });
  let found = await expect(receiver, "x");
  assert.equal(found.message.delivery_count ?? 0, 0);
  found.delivery.modified({ delivery_failed: true, undeliverable_here: false });
  found = await expect(receiver, "x");
  assert.equal(found.message.delivery_count, 1);
  found.delivery.reject({ condition: "app:wrong", description: "not for me" });
  await expectNone(receiver);
  accept(await take(await receiverOf(dead)));
});

test("transactions", { skip: "rhea has no transactions of its own" }, () => {});

test("selector: only what it takes comes", async () => {
  const queue = await queueFor("SELECTOR");
  for (const colour of ["red", "blue"]) {
    await send(queue, { body: colour, application_properties: { colour } });
  }
  const filter = rhea.filter.selector("colour = 'blue'");
  const receiver = await receiverOf({ address: queue, filter });
  accept(await expect(receiver, "blue"));
  await expectNone(receiver);
});

test("browser: a browser leaves messages where they are", async () => {
  const queue = await queueFor("BROWSER");
  await send(queue, "x");
  for (let round = 0; round < 2; round += 1) {
    const browser = await receiverOf({ address: queue, distribution_mode: "copy" });
    await expect(browser, "x");
    await expectNone(browser);
  }
  accept(await expect(await receiverOf(queue), "x"));
});

test("durable: a subscription goes on while its client is away", async () => {
  const source = { address: "topic://dev/rhea/durable", durable: 2, expiry_policy: "never" };
  const one = await connected("rhea-durable");
  const first = await receiverOf(source, { name: "durable" }, one);
  first.detach();
  await once(first, "receiver_close").catch(() => {});
  await send(source.address, "while away");
  const again = await receiverOf(source, { name: "durable" }, one);
  accept(await expect(again, "while away"));
  again.close();
  await once(again, "receiver_close");
  one.close();
});

test("shared: each message comes to one of those that share", async () => {
  const one = await connected("rhea-shared");
  const source = { address: "topic://dev/rhea/shared", capabilities: ["shared"] };
  const first = await receiverOf(source, { name: "shared|1" }, one);
  const second = await receiverOf(source, { name: "shared|2" }, one);
  await send(source.address, "x");
  accept(await expect(first, "x"));
  await expectNone(second);
  one.close();
});

test("temporary: a request is answered over a temporary queue", async () => {
  const queue = await queueFor("TEMPORARY");
  const replies = await receiverOf({ dynamic: true });
  await send(queue, { body: "request", reply_to: replies.source.address });
  const request = await expect(await receiverOf(queue), "request");
  await send(request.message.reply_to, "answer");
  accept(request);
  accept(await expect(replies, "answer"));
});

test("large: a message of 1.5 MB comes in frames", async () => {
  const queue = await queueFor("LARGE");
  const body = "mayfly".repeat(1 << 18);
  await send(queue, { body });
  accept(await expect(await receiverOf(queue), body));
});

test("errors: they have their own conditions", async () => {
  await assert.rejects(receiverOf("queue://DEV.NO.SUCH.QUEUE"), { condition: "amqp:not-found" });
  await assert.rejects(connected("rhea", "wrong"));
});
