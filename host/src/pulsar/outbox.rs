//! What one connection has still to be sent: a queue bounded in bytes, and the task that writes it.
//!
//! Whoever sends waits while the bound is reached; that stops delivery to a client that does not read,
//! and nobody else's. One that takes nothing for a long time is given up: what it holds is memory that all
//! share. A frame larger than the bound goes out alone. Frames that wait together leave in
//! one write.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use weir_broker::Held;

/// The buffer in which small frames are gathered to one write. Larger frames pass it by.
const WRITE_BUFFER: usize = 64 * 1024;

/// A frame on its way out: its head, and (for a message) the entry, which is shared and not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
}

impl From<Bytes> for Outgoing {
    fn from(head: Bytes) -> Self {
        Self { head, body: Bytes::new() }
    }
}

/// A frame in the queue, with what is given back when it is written: its part of the queue, and of a
/// delivery what the broker counts.
struct Queued {
    frame: Outgoing,
    _permit: OwnedSemaphorePermit,
    _held: Option<Held>,
}

/// The sending end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbox {
    queue: mpsc::UnboundedSender<Queued>,
    // Bounds the queue: each frame in it holds as many permits as it has bytes.
    budget: Arc<Semaphore>,
    bound: u32,
}

/// The writing end; to be run by [`Writer::run`].
pub(crate) struct Writer {
    queue: mpsc::UnboundedReceiver<Queued>,
    budget: Arc<Semaphore>,
    patience: Duration,
}

/// The connection is gone: nothing more will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub(crate) struct Closed;

/// A queue of at most `bound` bytes, for a peer that takes some of what waits for it within `patience`.
pub(crate) fn outbox(bound: usize, patience: Duration) -> (Outbox, Writer) {
    let bound = u32::try_from(bound).unwrap_or(u32::MAX).max(1);
    let budget = Arc::new(Semaphore::new(bound as usize));
    let (sender, receiver) = mpsc::unbounded_channel();
    let writer = Writer { queue: receiver, budget: Arc::clone(&budget), patience };
    (Outbox { queue: sender, budget, bound }, writer)
}

impl Outbox {
    /// Queues a frame; waits while the queue is full.
    ///
    /// # Errors
    /// When the connection is closed.
    pub(crate) async fn send(&self, frame: impl Into<Outgoing>) -> Result<(), Closed> {
        self.queue(frame.into(), None).await
    }

    /// Queues a delivery, as [`send`](Self::send) does; `held` is given back when it is written.
    ///
    /// # Errors
    /// When the connection is closed.
    pub(crate) async fn deliver(&self, frame: Outgoing, held: Held) -> Result<(), Closed> {
        self.queue(frame, Some(held)).await
    }

    async fn queue(&self, frame: Outgoing, held: Option<Held>) -> Result<(), Closed> {
        let bytes = u32::try_from(frame.head.len() + frame.body.len()).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.budget)
            .acquire_many_owned(bytes.clamp(1, self.bound))
            .await
            .map_err(|_closed_has_one_meaning| Closed)?;
        self.queue
            .send(Queued { frame, _permit: permit, _held: held })
            .map_err(|_closed_has_one_meaning| Closed)
    }
}

impl Writer {
    /// Writes until every [`Outbox`] is dropped, or the peer is gone; then whoever waits is told.
    ///
    /// # Errors
    /// When the socket fails, or the peer takes nothing for too long.
    pub(crate) async fn run(mut self, mut socket: impl AsyncWrite + Unpin) -> io::Result<()> {
        // Our own, and no `BufWriter`: that gives up its whole buffer in one call, which a slow peer need
        // not take within `patience`.
        let mut gathered = Vec::with_capacity(WRITE_BUFFER);
        while let Some(first) = self.queue.recv().await {
            let mut next = Some(first);
            while let Some(queued) = next {
                for part in [&queued.frame.head, &queued.frame.body] {
                    if gathered.len() + part.len() > WRITE_BUFFER {
                        write_all(&mut socket, &gathered, self.patience).await?;
                        gathered.clear();
                    }
                    if part.len() > WRITE_BUFFER {
                        write_all(&mut socket, part, self.patience).await?;
                    } else {
                        gathered.extend_from_slice(part);
                    }
                }
                next = self.queue.try_recv().ok();
            }
            write_all(&mut socket, &gathered, self.patience).await?;
            gathered.clear();
            timeout(self.patience, socket.flush()).await??;
        }
        socket.shutdown().await
    }
}

/// As long as it takes, if only some of it goes out within `patience` at a time.
async fn write_all(
    socket: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    patience: Duration,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match timeout(patience, socket.write(bytes)).await?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.budget.close();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::AsyncReadExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn frames_arrive_in_order() {
        let (outbox, writer) = outbox(100, PATIENCE);
        let (near, mut far) = tokio::io::duplex(16);
        let writing = tokio::spawn(writer.run(near));
        let sending = tokio::spawn(async move {
            for i in 0..50_u8 {
                let frame = Outgoing { head: vec![i].into(), body: vec![i; 10].into() };
                outbox.send(frame).await.unwrap();
            }
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        sending.await.unwrap();
        writing.await.unwrap().unwrap();
        let expected: Vec<u8> = (0..50_u8).flat_map(|i| [i; 11]).collect();
        assert_eq!(read, expected);
    }

    #[tokio::test]
    async fn a_full_queue_makes_the_sender_wait() {
        let (outbox, writer) = outbox(10, PATIENCE);
        outbox.send(Bytes::from_static(&[0; 10])).await.unwrap();
        let waits = outbox.send(Bytes::from_static(&[0; 1]));
        tokio::pin!(waits);
        assert!(std::future::poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await.is_pending());
        drop(writer);
        assert_eq!(waits.await, Err(Closed));
    }

    #[tokio::test]
    async fn a_frame_larger_than_the_bound_goes_out_alone() {
        let (outbox, writer) = outbox(10, PATIENCE);
        let (near, mut far) = tokio::io::duplex(1024);
        outbox.send(Bytes::from_static(&[7; 100])).await.unwrap();
        drop(outbox);
        writer.run(near).await.unwrap();
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, [7; 100]);
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (outbox, writer) = outbox(1 << 20, Duration::from_millis(50));
        let (near, _far) = tokio::io::duplex(16);
        let writing = tokio::spawn(writer.run(near));
        outbox.send(Bytes::from(vec![7; 100_000])).await.unwrap();
        let error = writing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(outbox.send(Bytes::from_static(b"more")).await, Err(Closed));
    }

    /// Takes one byte a call, and a while for it.
    struct Slow {
        pause: Duration,
        taking: Option<Pin<Box<tokio::time::Sleep>>>,
        taken: Vec<u8>,
    }

    impl AsyncWrite for &mut Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let pause = self.pause;
            let taking = self.taking.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
            std::task::ready!(taking.as_mut().poll(cx));
            self.taking = None;
            self.taken.push(bytes[0]);
            Poll::Ready(Ok(1))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_peer_that_takes_a_little_at_a_time_is_served_however_long_it_takes() {
        let patience = Duration::from_secs(2);
        let (outbox, writer) = outbox(1 << 20, patience);
        let sent: Vec<Vec<u8>> = (0..30).map(|i| vec![i; 10]).collect();
        for frame in &sent {
            outbox.send(Bytes::from(frame.clone())).await.unwrap();
        }
        drop(outbox);
        let mut slow = Slow { pause: Duration::from_millis(10), taking: None, taken: Vec::new() };
        let began = tokio::time::Instant::now();
        writer.run(&mut slow).await.unwrap();
        assert!(began.elapsed() > patience, "it took less than the patience, which shows nothing");
        assert_eq!(slow.taken, sent.concat());
    }
}
