//! One connection with one session, and the operator of the queue manager.

use std::env;
use std::future::Future;
use std::time::Duration;

use fe2o3_amqp::connection::{ConnectionHandle, OpenError};
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::link::ReceiverAttachError;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{AmqpValue, Body, Message, Outcome, Source};
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub type Text = Message<AmqpValue<Value>>;
pub type Got = Delivery<Body<Value>>;

/// Nothing takes so long, and a busy machine must not fail a test.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn patiently<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("it has not ended")
}

/// Send the operator's channel a line: an MQSC command, or time that is to pass.
pub async fn operate(line: &str) {
    let address = env::var("MAYFLY_CONTROL").unwrap();
    patiently(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).await.unwrap();
        assert_eq!(answer.trim(), "ok", "{line}");
    })
    .await
}

/// Define an empty queue for a test.
pub async fn queue_for(name: &str) -> String {
    let queue = format!("DEV.RUST.{name}");
    operate(&format!("mqsc DEFINE QLOCAL('{queue}') REPLACE")).await;
    operate(&format!("mqsc CLEAR QLOCAL('{queue}')")).await;
    queue
}

pub fn text(body: &str) -> Text {
    Message::builder().value(Value::from(body)).build()
}

pub fn text_of(got: &Got) -> &str {
    match got.body() {
        Body::Value(AmqpValue(Value::String(text))) => text,
        other => panic!("{other:?}"),
    }
}

pub struct Client {
    pub connection: ConnectionHandle<()>,
    pub session: SessionHandle<()>,
    links: u32,
}

pub async fn open(container: &str, password: &str) -> Result<ConnectionHandle<()>, OpenError> {
    let url = env::var("AMQP_URL").unwrap();
    let profile = SaslProfile::Plain {
        username: env::var("AMQP_USER").unwrap(),
        password: password.to_owned(),
    };
    let builder = Connection::builder()
        .container_id(container)
        .sasl_profile(profile);
    patiently(builder.open(url.as_str())).await
}

impl Client {
    pub async fn connect(container: &str) -> Client {
        let password = env::var("AMQP_PASSWORD").unwrap();
        let mut connection = open(container, &password).await.unwrap();
        let session = patiently(Session::begin(&mut connection)).await.unwrap();
        Client {
            connection,
            session,
            links: 0,
        }
    }

    fn next_name(&mut self) -> String {
        self.links += 1;
        format!("link-{}", self.links)
    }

    pub async fn sender(&mut self, address: &str) -> Sender {
        let name = self.next_name();
        patiently(Sender::attach(&mut self.session, name, address))
            .await
            .unwrap()
    }

    /// Send a message; gives the outcome that the server has told.
    pub async fn outcome(&mut self, address: &str, message: Text) -> Outcome {
        let mut sender = self.sender(address).await;
        let outcome = patiently(sender.send(message)).await.unwrap();
        patiently(sender.close()).await.unwrap();
        outcome
    }

    pub async fn send(&mut self, address: &str, message: Text) {
        let outcome = self.outcome(address, message).await;
        assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
    }

    pub async fn attach(
        &mut self,
        name: Option<&str>,
        source: impl Into<Source>,
    ) -> Result<Receiver, ReceiverAttachError> {
        let name = name.map_or_else(|| self.next_name(), str::to_owned);
        let builder = Receiver::builder().name(name).source(source);
        patiently(
            builder
                .credit_mode(CreditMode::Manual)
                .attach(&mut self.session),
        )
        .await
    }

    /// A receiver without credit.
    pub async fn receiver(&mut self, source: impl Into<Source>) -> Receiver {
        self.attach(None, source).await.unwrap()
    }
}

/// Take the next message.
pub async fn take(receiver: &mut Receiver) -> Got {
    patiently(receiver.set_credit(1)).await.unwrap();
    patiently(receiver.recv()).await.unwrap()
}

pub async fn expect(receiver: &mut Receiver, body: &str) -> Got {
    let got = take(receiver).await;
    assert_eq!(text_of(&got), body);
    got
}

/// Take the next message, and accept it.
pub async fn consume(receiver: &mut Receiver, body: &str) -> Got {
    let got = expect(receiver, body).await;
    patiently(receiver.accept(&got)).await.unwrap();
    got
}
