//! What the tests stand on: a broker in a folder, a protocol, a filter.
//!
//! The protocol: a kind (`S` single, `B` batch, `X` sealed), the publish time as eight bytes, then each
//! message as a length (four bytes, big-endian) and its text. An entry of `huge` claims to unpack to 4 MiB.
//! The filter goes by the text: `no…` is
//! rejected, `later…` is rescheduled the first time it is judged, `bad…` breaks it always, `sick…` the
//! first time; everything else is accepted.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use tempfile::TempDir;
use weir_extension::{Broke, Builtin, Cell, ClassName, Delay, Extensions, Field, MessageFilter, Verdict};
use weir_filter::{FilterRef, OnFailure, Origin};
use weir_store::Options;

use crate::budget::Budget;
use crate::*;

/// Far more than anything here takes: a test that waits so long has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long `later…` is put off, and the first pause of what is withheld.
const PAUSE_MILLIS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(PAUSE_MILLIS as u64);

pub(super) fn single(text: &str) -> Bytes {
    encode(b'S', 0, &[text])
}

pub(super) fn batch(texts: &[&str]) -> Bytes {
    encode(b'B', 0, texts)
}

pub(super) fn sealed() -> Bytes {
    encode(b'X', 0, &["secret"])
}

pub(super) fn encode(kind: u8, time: u64, texts: &[impl AsRef<str>]) -> Bytes {
    let mut entry = BytesMut::new();
    entry.put_u8(kind);
    entry.put_u64(time);
    for text in texts {
        let text = text.as_ref();
        entry.put_u32(u32::try_from(text.len()).unwrap());
        entry.put_slice(text.as_bytes());
    }
    entry.freeze()
}

/// The texts of an entry.
pub(super) fn texts(entry: &Bytes) -> Vec<String> {
    let mut rest = &entry[9..];
    let mut texts = Vec::new();
    while let Some((length, tail)) = rest.split_at_checked(4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        texts.push(String::from_utf8(tail[..length].to_vec()).unwrap());
        rest = &tail[length..];
    }
    texts
}

/// How many entries are open at one time: now, and at most so far.
#[derive(Default)]
pub(super) struct OpenNow(Mutex<(usize, usize)>);

impl OpenNow {
    pub(super) fn most(&self) -> usize {
        self.0.lock().1
    }

    fn opened(&self) {
        let mut open = self.0.lock();
        open.0 += 1;
        open.1 = open.1.max(open.0);
    }
}

struct Protocol {
    open: Arc<OpenNow>,
}

struct Opened {
    kind: u8,
    payloads: Vec<Bytes>,
    open: Arc<OpenNow>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.open.0.lock().0 -= 1;
    }
}

impl EntryDecoder for Protocol {
    fn open(&self, entry: &Bytes) -> Result<Box<dyn OpenedEntry>, DecodeError> {
        match entry[0] {
            b'X' => Err(DecodeError("it is sealed".to_owned())),
            kind => {
                self.open.opened();
                let payloads = texts(entry).into_iter().map(Bytes::from).collect();
                Ok(Box::new(Opened { kind, payloads, open: Arc::clone(&self.open) }))
            }
        }
    }

    fn publish_time(&self, entry: &Bytes) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(entry[1..9].try_into().unwrap()))
    }
}

impl OpenedEntry for Opened {
    fn len(&self) -> usize {
        self.payloads.len()
    }

    fn unpacked_bytes(&self) -> usize {
        if self.payloads[0] == "huge" { 4 << 20 } else { self.payloads.iter().map(Bytes::len).sum() }
    }

    fn is_batch(&self) -> bool {
        self.kind == b'B'
    }

    fn view<'a>(&'a self, topic: &'a TopicName, messages: &mut Messages<'a>) {
        for payload in &self.payloads {
            let mut row = messages.row();
            row.text(&Field::Topic, topic.as_str());
            row.payload(payload);
        }
    }

    fn keep(&self, keep: &[bool]) -> Result<Bytes, DecodeError> {
        assert_eq!((keep.len(), self.kind), (self.payloads.len(), b'B'));
        let kept = self.payloads.iter().zip(keep).filter(|(_, keep)| **keep);
        let texts: Vec<&str> = kept.map(|(text, _)| std::str::from_utf8(text).unwrap()).collect();
        Ok(batch(&texts))
    }
}

/// What has been judged, in the order in which it was.
#[derive(Default)]
pub(super) struct Judged(pub Mutex<Vec<String>>);

impl Judged {
    pub(super) fn times(&self, text: &str) -> usize {
        self.0.lock().iter().filter(|judged| *judged == text).count()
    }
}

struct Words {
    judged: Arc<Judged>,
    seen: Arc<Mutex<HashMap<String, u32>>>,
}

impl MessageFilter for Words {
    fn judge(
        &mut self,
        messages: &Messages<'_>,
        rows: &[u32],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Broke> {
        for row in rows {
            let Cell::Bytes(text) = messages.cell(*row, 0) else { panic!("no payload") };
            let text = std::str::from_utf8(text).unwrap();
            self.judged.0.lock().push(text.to_owned());
            let mut seen = self.seen.lock();
            let before = seen.entry(text.to_owned()).or_insert(0);
            *before += 1;
            let first = *before == 1;
            verdicts.push(match text {
                _ if text.starts_with("no") => Verdict::Reject,
                _ if text.starts_with("later") && first => {
                    Verdict::Reschedule(Delay::from_millis(PAUSE_MILLIS))
                }
                _ if text.starts_with("bad") || (text.starts_with("sick") && first) => Verdict::Broke,
                _ => Verdict::Accept,
            });
        }
        Ok(())
    }
}

pub(super) struct Rig {
    pub extensions: Arc<Extensions>,
    pub bindings: Arc<Bindings>,
    pub index: Arc<Index>,
    pub judged: Arc<Judged>,
    pub open: Arc<OpenNow>,
    pub broker: Arc<Broker>,
    // The store's folder, last: it goes when everything else is gone.
    pub folder: TempDir,
}

impl Rig {
    pub(super) async fn new() -> Self {
        Self::open(tempfile::tempdir().unwrap()).await
    }

    /// Opens a folder, as soon as the process before has let go of it.
    pub(super) async fn open(folder: TempDir) -> Self {
        let store = open_store(folder.path()).await;
        let judged = Arc::new(Judged::default());
        let extensions = Extensions::with_builtins(vec![words(&judged)]);
        let bindings = Arc::new(Bindings::new(Arc::clone(&extensions)));
        let index = Arc::new(Index::default());
        let options = BrokerOptions {
            withhold_first_pause: PAUSE,
            withhold_longest_pause: PAUSE * 4,
            max_message_size: 1024 * 1024,
            ..BrokerOptions::default()
        };
        let workers = Arc::new(Workers::new(2));
        let open = Arc::new(OpenNow::default());
        let broker = Broker::open(
            &store,
            Arc::clone(&index),
            Arc::clone(&bindings),
            workers,
            Arc::new(Protocol { open: Arc::clone(&open) }),
            options,
        );
        Self { extensions, bindings, index, judged, open, broker: broker.unwrap(), folder }
    }

    /// As after `kill -9`: nothing is told that the end comes.
    pub(super) async fn restart(self) -> Self {
        let Self { folder, broker, .. } = self;
        drop(broker);
        Self::open(folder).await
    }

    pub(super) async fn topic(&self, name: &str) -> Arc<Topic> {
        self.broker.topic(&TopicName::new(name).unwrap(), true).await.unwrap()
    }

    pub(super) async fn bind(&self, topic: &str, on_failure: OnFailure) {
        self.broker.put_binding(binding(topic, "test.Words", on_failure)).await.unwrap();
    }
}

pub(super) fn binding(topic: &str, class: &str, on_failure: OnFailure) -> Binding {
    Binding {
        target: Target::Topic(TopicName::new(topic).unwrap()),
        subscription: Some("s".to_owned()),
        filters: vec![FilterRef { class: ClassName::new(class).unwrap(), config: None }],
        on_failure,
        origin: Origin::Rest,
    }
}

/// The filter of the file's head.
pub(super) fn words(judged: &Arc<Judged>) -> Builtin {
    let (judged, seen) = (Arc::clone(judged), Arc::default());
    Builtin::filter(ClassName::new("test.Words").unwrap(), vec![Field::Payload], move |_| {
        Ok(Box::new(Words { judged: Arc::clone(&judged), seen: Arc::clone(&seen) }))
    })
}

async fn open_store(folder: &Path) -> Store {
    let opening = async {
        loop {
            match Store::open(folder, Options::default()) {
                Ok((store, _)) => return store,
                Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, opening).await.expect("the folder is free again")
}

/// Waits until `check` is true of the subscription `s`.
pub(super) async fn until(topic: &Topic, check: impl Fn(&SubscriptionStats) -> bool) -> SubscriptionStats {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let stats = topic.stats().await.unwrap().subscriptions.remove("s").unwrap();
        if check(&stats) {
            return stats;
        }
        assert!(tokio::time::Instant::now() < deadline, "it never came to that: {stats:#?}");
        tokio::task::yield_now().await;
    }
}

pub(super) async fn publish(topic: &Arc<Topic>, entries: impl IntoIterator<Item = Bytes>) -> Vec<Position> {
    let producer = topic.add_producer(None, BTreeMap::new()).unwrap();
    let appended: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let messages = u32::try_from(texts(&entry).len()).unwrap();
            producer.publish(entry, messages)
        })
        .collect();
    let mut positions = Vec::new();
    for one in appended {
        positions.push(one.await.unwrap().position);
    }
    positions
}

/// The options of a consumer with a connection of its own, which has all the room it wants.
pub(super) fn options(kind: SubscriptionType) -> ConsumerOptions {
    ConsumerOptions {
        subscription: "s".to_owned(),
        kind,
        start: Start::Earliest,
        durable: true,
        create: true,
        consumer_name: "c".to_owned(),
        metadata: BTreeMap::new(),
        share: Budget::new(usize::MAX, usize::MAX, 1 << 20).share(),
    }
}

/// A client: a consumer with its deliveries.
pub(super) struct Client {
    pub consumer: Consumer,
    pub deliveries: Deliveries,
}

impl Client {
    pub(super) async fn new(topic: &Arc<Topic>, kind: SubscriptionType, permits: u32) -> Self {
        Self::with(topic, options(kind), permits).await
    }

    pub(super) async fn with(topic: &Arc<Topic>, options: ConsumerOptions, permits: u32) -> Self {
        let (consumer, deliveries) = topic.subscribe(options).await.unwrap();
        if permits > 0 {
            consumer.flow(permits);
        }
        Self { consumer, deliveries }
    }

    pub(super) async fn next(&mut self) -> Delivery {
        let next = tokio::time::timeout(PATIENCE, self.deliveries.next()).await;
        next.expect("something is delivered").expect("the consumer is open")
    }

    /// The texts of the next `n` deliveries, each acknowledged whole.
    pub(super) async fn read(&mut self, n: usize) -> Vec<String> {
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let delivery = self.next().await;
            assert_eq!(delivery.messages as usize, texts(&delivery.entry).len());
            read.extend(texts(&delivery.entry));
            let ack = [Ack { position: delivery.position, unacked: None, batch_size: None }];
            written.push(self.consumer.acknowledge(AckKind::Individual, &ack));
        }
        for one in written {
            one.await.unwrap();
        }
        read
    }

    pub(super) async fn ack(&self, position: Position, unacked: Option<Vec<u32>>) {
        let acks = [Ack { position, unacked, batch_size: None }];
        self.consumer.acknowledge(AckKind::Individual, &acks).await.unwrap();
    }
}
