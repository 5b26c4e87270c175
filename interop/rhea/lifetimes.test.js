// rhea, the client for JavaScript: names of tests begin with the rule that they show.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import rhea from "rhea";

const url = new URL(process.env.AMQP_URL.replace("amqp:", "http:"));
let connection;

const once = (emitter, event) => new Promise((resolve) => emitter.once(event, resolve));

before(async () => {
  const container = rhea.create_container();
  connection = container.connect({
    host: url.hostname,
    port: Number(url.port),
    username: process.env.AMQP_USER,
    password: process.env.AMQP_PASSWORD,
    reconnect: false,
  });
  await once(connection, "connection_open");
});

after(() => connection.close());

async function send(message) {
  const sender = connection.open_sender("DEV.QUEUE.2");
  await once(sender, "sendable");
  sender.send(message);
  const outcome = await Promise.race([once(sender, "accepted"), once(sender, "rejected")]);
  sender.close();
  return outcome.delivery.remote_state;
}

async function receive(waitMs) {
  const receiver = connection.open_receiver({
    source: "DEV.QUEUE.2",
    credit_window: 0,
    autoaccept: true,
  });
  await once(receiver, "receiver_open");
  receiver.add_credit(1);
  let timer;
  const found = await Promise.race([
    once(receiver, "message"),
    new Promise((resolve) => (timer = setTimeout(() => resolve(null), waitMs))),
  ]);
  clearTimeout(timer);
  receiver.close();
  return found && found.message;
}

test("E5 the rest of a life comes as ttl", async () => {
  await send({ body: "hello", ttl: 60000, durable: true, application_properties: { n: 1 } });
  const message = await receive(10000);
  assert.equal(message.body, "hello");
  assert.ok(message.ttl > 50000 && message.ttl <= 60000);
  assert.equal(message.application_properties.n, 1);
});

test("D1 a delayed message comes at its time", async () => {
  const begin = Date.now();
  await send({ body: "later", message_annotations: { "x-opt-delivery-delay": 800 } });
  const message = await receive(10000);
  assert.equal(message.body, "later");
  assert.ok(Date.now() - begin >= 800);
});

test("E9 an expired message does not come", async () => {
  await send({ body: "short", ttl: 100 });
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(await receive(400), null);
});

test("D2 a delay below 0 is rejected", async () => {
  const state = await send({ body: "x", message_annotations: { "x-opt-delivery-delay": -1 } });
  assert.equal(state.error.condition, "amqp:invalid-field");
});
