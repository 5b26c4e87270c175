//! fe2o3-amqp, a client for Rust: the first word of a test is a row of the table in docs/AMQP.md.

mod client;

use client::{
    consume, expect, open, operate, patiently, queue_for, take, text, text_of, Client, Text,
};
use fe2o3_amqp::connection::OpenError;
use fe2o3_amqp::link::ReceiverAttachError;
use fe2o3_amqp::transaction::{
    Controller, Transaction, TransactionDischarge, TransactionPosting, TransactionRetirement,
};
use fe2o3_amqp::types::definitions::{AmqpError, ErrorCondition};
use fe2o3_amqp::types::messaging::annotations::AnnotationKey;
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Body, Data, DistributionMode, Header, Message, MessageAnnotations,
    MessageId, Modified, Outcome, Priority, Properties, Source, TerminusDurability,
    TerminusExpiryPolicy,
};
use fe2o3_amqp::types::primitives::{Binary, SimpleValue, Symbol, Value};
use fe2o3_amqp::Receiver;
use serde_amqp::described::Described;
use serde_amqp::descriptor::Descriptor;

fn delayed(body: &str, delay: Value) -> Text {
    let mut message = text(body);
    let annotations = MessageAnnotations::builder().insert("x-opt-delivery-delay", delay);
    message.message_annotations = Some(annotations.build());
    message
}

fn living(body: &str, life_ms: u32) -> Text {
    let mut message = text(body);
    message.header = Some(Header {
        durable: true,
        ttl: Some(life_ms),
        ..Header::default()
    });
    message
}

fn coloured(colour: &str) -> Text {
    let mut message = text(colour);
    let properties = ApplicationProperties::builder().insert("colour", colour);
    message.application_properties = Some(properties.build());
    message
}

/// A message that is sent now is the next one: no other is there.
async fn expect_none(client: &mut Client, receiver: &mut Receiver, address: &str) {
    let mut mark = coloured("blue");
    mark.body.0 = Value::from("mark");
    client.send(address, mark).await;
    consume(receiver, "mark").await;
}

#[tokio::test]
async fn delay_a_delayed_message_comes_at_its_time() {
    let (mut client, queue) = (Client::connect("").await, queue_for("DELAY").await);
    client
        .send(&queue, delayed("later", Value::Ulong(5000)))
        .await;
    let mut receiver = client.receiver(queue.as_str()).await;
    operate("advance 4999").await;
    expect_none(&mut client, &mut receiver, &queue).await;
    operate("advance 1").await;
    let got = consume(&mut receiver, "later").await;
    let annotations = got.message().message_annotations.as_ref().unwrap();
    let sent = got
        .message()
        .properties
        .as_ref()
        .unwrap()
        .creation_time
        .clone()
        .unwrap();
    let delivered = match annotations.get(&"x-opt-delivery-time" as &dyn AnnotationKey) {
        Some(Value::Long(at_ms)) => *at_ms,
        other => panic!("{other:?}"),
    };
    assert_eq!(delivered - sent.milliseconds(), 5000);
}

#[tokio::test]
async fn refusal_of_a_delay_below_0_and_of_a_life_shorter_than_it() {
    let (mut client, queue) = (Client::connect("").await, queue_for("REFUSAL").await);
    let mut short = delayed("x", Value::Long(2000));
    short.header = living("x", 1000).header;
    for message in [delayed("x", Value::Long(-1)), short] {
        let Outcome::Rejected(rejected) = client.outcome(&queue, message).await else {
            panic!("it is taken");
        };
        let condition = ErrorCondition::AmqpError(AmqpError::InvalidField);
        assert_eq!(rejected.error.unwrap().condition, condition);
    }
}

#[tokio::test]
async fn life_the_rest_of_it_arrives() {
    let (mut client, queue) = (Client::connect("").await, queue_for("LIFE").await);
    client.send(&queue, living("x", 60_000)).await;
    operate("advance 20000").await;
    let mut receiver = client.receiver(queue.as_str()).await;
    let got = consume(&mut receiver, "x").await;
    assert_eq!(got.message().header.as_ref().unwrap().ttl, Some(40_000));
}

#[tokio::test]
async fn expiry_an_expired_message_does_not_come() {
    let (mut client, queue) = (Client::connect("").await, queue_for("EXPIRY").await);
    client.send(&queue, living("x", 1000)).await;
    operate("advance 1000").await;
    let mut receiver = client.receiver(queue.as_str()).await;
    expect_none(&mut client, &mut receiver, &queue).await;
}

#[tokio::test]
async fn properties_and_headers_arrive() {
    let (mut client, queue) = (Client::connect("").await, queue_for("PROPERTIES").await);
    let mut sent = text("x");
    sent.header = Some(Header {
        durable: true,
        priority: Priority(7),
        ..Header::default()
    });
    sent.properties = Some(Properties {
        message_id: Some(MessageId::String("mine".into())),
        correlation_id: Some(MessageId::String("c-1".into())),
        subject: Some("kind".into()),
        ..Properties::default()
    });
    let application = ApplicationProperties::builder()
        .insert("count", 5i32)
        .insert("colour", "red")
        .insert("sunny", true)
        .insert("half", SimpleValue::Double(1.5.into()))
        .build();
    sent.application_properties = Some(application.clone());
    let wanted = sent.properties.clone().unwrap();
    client.send(&queue, sent).await;
    let mut receiver = client.receiver(queue.as_str()).await;
    let got = consume(&mut receiver, "x").await.into_message();
    let header = got.header.unwrap();
    assert_eq!((header.durable, header.priority), (true, Priority(7)));
    let properties = got.properties.unwrap();
    assert_eq!(properties.message_id, wanted.message_id);
    assert_eq!(properties.correlation_id, wanted.correlation_id);
    assert_eq!(properties.subject, wanted.subject);
    let got = got.application_properties.unwrap();
    for (name, value) in application.0.iter() {
        assert_eq!(got.0.get(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn bodies_arrive() {
    let (mut client, queue) = (Client::connect("").await, queue_for("BODIES").await);
    let mut receiver = client.receiver(queue.as_str()).await;
    let list = Value::List(vec![Value::Int(1), Value::from("two")]);
    for value in [Value::from("text"), Value::Long(5), Value::Bool(true), list] {
        client
            .send(&queue, Message::builder().value(value.clone()).build())
            .await;
        let got = take(&mut receiver).await;
        assert!(
            matches!(got.body(), Body::Value(found) if found.0 == value),
            "{got:?}"
        );
        receiver.accept(&got).await.unwrap();
    }
    let mut sender = client.sender(&queue).await;
    let data = Message::builder()
        .data(Binary::from(vec![0, 1, 255]))
        .build();
    sender
        .send(data)
        .await
        .unwrap()
        .accepted_or("not taken")
        .unwrap();
    assert_eq!(data_of(&mut receiver).await, [0, 1, 255]);
}

async fn data_of(receiver: &mut Receiver) -> Vec<u8> {
    receiver.set_credit(1).await.unwrap();
    let got = patiently(receiver.recv::<Data>()).await.unwrap();
    receiver.accept(&got).await.unwrap();
    got.into_body().0.into_vec()
}

#[test]
#[ignore = "its drain asks the server, and its program is not told of the answer"]
fn drain() {}

#[tokio::test]
async fn outcomes_released_modified_and_rejected() {
    let (mut client, queue) = (Client::connect("").await, queue_for("OUTCOMES").await);
    let dead = queue_for("DEAD").await;
    operate(&format!("mqsc ALTER QMGR DEADQ('{dead}')")).await;
    client.send(&queue, text("x")).await;
    let mut receiver = client.receiver(queue.as_str()).await;
    let got = expect(&mut receiver, "x").await;
    receiver.release(&got).await.unwrap();
    let got = expect(&mut receiver, "x").await;
    assert_eq!(
        got.message()
            .header
            .as_ref()
            .map_or(0, |header| header.delivery_count),
        0
    );
    let failed = Modified {
        delivery_failed: Some(true),
        undeliverable_here: None,
        message_annotations: None,
    };
    receiver.modify(&got, failed).await.unwrap();
    let got = expect(&mut receiver, "x").await;
    assert_eq!(got.message().header.as_ref().unwrap().delivery_count, 1);
    receiver.reject(&got, None).await.unwrap();
    expect_none(&mut client, &mut receiver, &queue).await;
    let mut letters = client.receiver(dead.as_str()).await;
    let letter = take(&mut letters).await;
    letters.accept(&letter).await.unwrap();
}

#[tokio::test]
async fn transactions_commit_and_roll_back() {
    let (mut client, queue) = (Client::connect("").await, queue_for("TRANSACTIONS").await);
    let controller = patiently(Controller::attach(&mut client.session, "c"))
        .await
        .unwrap();
    let mut sender = client.sender(&queue).await;
    let mut receiver = client.receiver(queue.as_str()).await;
    let never = patiently(Transaction::declare(&controller, None))
        .await
        .unwrap();
    patiently(never.post(&mut sender, text("never")))
        .await
        .unwrap();
    patiently(never.rollback()).await.unwrap();
    let kept = patiently(Transaction::declare(&controller, None))
        .await
        .unwrap();
    patiently(kept.post(&mut sender, text("kept")))
        .await
        .unwrap();
    patiently(kept.commit()).await.unwrap();
    // Accepted in a transaction that is rolled back, it comes again, and is counted.
    let first = expect(&mut receiver, "kept").await;
    let backed_out = patiently(Transaction::declare(&controller, None))
        .await
        .unwrap();
    patiently(backed_out.accept(&mut receiver, &first))
        .await
        .unwrap();
    patiently(backed_out.rollback()).await.unwrap();
    let again = expect(&mut receiver, "kept").await;
    assert_eq!(again.message().header.as_ref().unwrap().delivery_count, 1);
    let taken = patiently(Transaction::declare(&controller, None))
        .await
        .unwrap();
    patiently(taken.accept(&mut receiver, &again))
        .await
        .unwrap();
    patiently(taken.commit()).await.unwrap();
    expect_none(&mut client, &mut receiver, &queue).await;
    patiently(controller.close()).await.unwrap();
}

#[tokio::test]
async fn selector_lets_only_what_it_takes_come() {
    let (mut client, queue) = (Client::connect("").await, queue_for("SELECTOR").await);
    for colour in ["red", "blue"] {
        client.send(&queue, coloured(colour)).await;
    }
    let name = "apache.org:selector-filter:string";
    let selector = Described {
        descriptor: Descriptor::Name(Symbol::from(name)),
        value: Value::from("colour = 'blue'"),
    };
    let source = Source::builder()
        .address(queue.as_str())
        .add_to_filter(name, selector);
    let mut blue = client.receiver(source.build()).await;
    consume(&mut blue, "blue").await;
    expect_none(&mut client, &mut blue, &queue).await;
}

#[tokio::test]
async fn browser_leaves_messages_where_they_are() {
    let (mut client, queue) = (Client::connect("").await, queue_for("BROWSER").await);
    client.send(&queue, text("x")).await;
    let source = Source::builder().address(queue.as_str());
    let source = source.distribution_mode(DistributionMode::Copy).build();
    for _ in 0..2 {
        let mut copies = client.receiver(source.clone()).await;
        expect(&mut copies, "x").await;
        copies.close().await.unwrap();
    }
    let mut receiver = client.receiver(queue.as_str()).await;
    consume(&mut receiver, "x").await;
}

#[tokio::test]
async fn durable_subscription_goes_on_while_its_client_is_away() {
    let topic = "topic://dev/rust/durable";
    let source = Source::builder()
        .address(topic)
        .durable(TerminusDurability::UnsettledState)
        .expiry_policy(TerminusExpiryPolicy::Never)
        .build();
    let mut first = Client::connect("rust-durable").await;
    let receiver = first.attach(Some("durable"), source.clone()).await.unwrap();
    receiver.detach().await.map_err(|(_, error)| error).unwrap();
    first.connection.close().await.unwrap();
    Client::connect("")
        .await
        .send(topic, text("while away"))
        .await;
    let mut again = Client::connect("rust-durable").await;
    let mut receiver = again.attach(Some("durable"), source).await.unwrap();
    consume(&mut receiver, "while away").await;
    // A close, other than a detach, ends the subscription.
    receiver.close().await.unwrap();
}

#[tokio::test]
async fn shared_subscription_gives_each_message_to_one() {
    let topic = "topic://dev/rust/shared";
    let mut client = Client::connect("rust-shared").await;
    let source = Source::builder()
        .address(topic)
        .capabilities(vec![Symbol::from("shared")]);
    let source = source.build();
    let mut one = client
        .attach(Some("shared|1"), source.clone())
        .await
        .unwrap();
    let mut two = client.attach(Some("shared|2"), source).await.unwrap();
    client.send(topic, text("x")).await;
    consume(&mut one, "x").await;
    expect_none(&mut client, &mut two, topic).await;
}

#[tokio::test]
async fn temporary_queue_takes_the_answer() {
    let (mut client, queue) = (Client::connect("").await, queue_for("TEMPORARY").await);
    let mut replies = client
        .receiver(Source::builder().dynamic(true).build())
        .await;
    let address = replies.source().as_ref().unwrap().address.clone().unwrap();
    let mut request = text("request");
    request.properties = Some(Properties {
        reply_to: Some(address),
        ..Properties::default()
    });
    client.send(&queue, request).await;
    let mut receiver = client.receiver(queue.as_str()).await;
    let got = consume(&mut receiver, "request").await.into_message();
    client
        .send(&got.properties.unwrap().reply_to.unwrap(), text("answer"))
        .await;
    consume(&mut replies, "answer").await;
}

#[tokio::test]
async fn large_message_comes_in_frames() {
    let (mut client, queue) = (Client::connect("").await, queue_for("LARGE").await);
    let body = "mayfly".repeat(1 << 18);
    client.send(&queue, text(&body)).await;
    let mut receiver = client.receiver(queue.as_str()).await;
    let got = take(&mut receiver).await;
    assert!(text_of(&got) == body);
    receiver.accept(&got).await.unwrap();
}

#[tokio::test]
async fn errors_have_their_own_types() {
    let mut client = Client::connect("").await;
    match client.attach(None, "queue://DEV.NO.SUCH.QUEUE").await {
        Err(ReceiverAttachError::RemoteClosedWithError(error)) => {
            assert_eq!(
                error.condition,
                ErrorCondition::AmqpError(AmqpError::NotFound)
            );
        }
        other => panic!("{other:?}"),
    }
    let refused = open("", "wrong").await;
    assert!(
        matches!(refused, Err(OpenError::SaslError { .. })),
        "{refused:?}"
    );
}
