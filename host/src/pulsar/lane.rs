//! Answers in the order in which they were asked for, whatever the time each takes.
//!
//! A connection has two lanes: one for answers with a request id, one for receipts. So a slow listing
//! holds back the answers asked for after it, and no receipt and no message.

use std::pin::Pin;

use tokio::sync::mpsc;

use super::outbox::{Closed, Outbox, Outgoing};

/// What becomes an answer; `None`: there is nothing to say after all.
type Answer = Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>;

/// The asking end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Lane {
    queue: mpsc::Sender<Answer>,
}

impl Lane {
    /// A lane of at most `depth` waiting answers, and the work of sending them: it ends when every
    /// [`Lane`] is dropped or the connection is closed.
    pub(crate) fn new(depth: usize, outbox: Outbox) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, mut answers) = mpsc::channel::<Answer>(depth);
        let work = async move {
            while let Some(answer) = answers.recv().await {
                let Some(frame) = answer.await else { continue };
                if outbox.send(frame).await.is_err() {
                    return;
                }
            }
        };
        (Self { queue }, work)
    }

    /// Puts an answer in line; waits while the lane is full. The answer is not polled before its turn:
    /// what shall go on meanwhile is to be spawned.
    ///
    /// # Errors
    /// When the connection is closed.
    pub(crate) async fn push(
        &self,
        answer: impl Future<Output = Option<Outgoing>> + Send + 'static,
    ) -> Result<(), Closed> {
        self.queue.send(Box::pin(answer)).await.map_err(|_closed_has_one_meaning| Closed)
    }

    /// Puts an answer in line that is known already.
    ///
    /// # Errors
    /// When the connection is closed.
    pub(crate) async fn answer(&self, frame: impl Into<Outgoing>) -> Result<(), Closed> {
        self.push(std::future::ready(Some(frame.into()))).await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::AsyncReadExt;
    use tokio::sync::oneshot;

    use super::*;
    use crate::pulsar::outbox::outbox;

    #[tokio::test]
    async fn a_slow_answer_holds_back_those_after_it() {
        let (outbox, writer) = outbox(100, std::time::Duration::from_secs(60));
        let (near, mut far) = tokio::io::duplex(100);
        let (lane, work) = Lane::new(10, outbox);
        tokio::spawn(work);
        tokio::spawn(writer.run(near));

        let (slow, is_slow) = oneshot::channel::<()>();
        lane.push(async move {
            is_slow.await.unwrap();
            Some(Outgoing::from(Bytes::from_static(b"1")))
        })
        .await
        .unwrap();
        lane.push(std::future::ready(None)).await.unwrap();
        lane.answer(Bytes::from_static(b"2")).await.unwrap();
        slow.send(()).unwrap();
        drop(lane);
        let mut read = String::new();
        far.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "12");
    }
}
