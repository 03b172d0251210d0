//! The admin address's listener: as many connections as there may be, none of which may dawdle.
//!
//! Heads and bodies of requests are bounded in bytes by what serves them. How many peers there are, and how
//! long each takes, is bounded here: one that neither sends nor takes anything to speak of is closed.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// What a peer must send and take together within `limits.admin-idle`: a small call and its answer. A byte
/// a second is less.
const LEAST_BYTES: u64 = 256;

/// Accepts so many connections at a time; further ones wait with the system.
pub(super) struct Bounded {
    listener: TcpListener,
    free: Arc<Semaphore>,
    idle: Duration,
}

impl Bounded {
    /// At most `connections` at a time, each closed after `idle` without progress.
    pub(super) fn new(listener: TcpListener, connections: usize, idle: Duration) -> Self {
        let free = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
        Self { listener, free, idle }
    }
}

impl Listener for Bounded {
    type Io = Peer;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Peer, SocketAddr) {
        let permit = Arc::clone(&self.free).acquire_owned().await.expect("the semaphore is never closed");
        // Pauses when the system gives no socket, and tries again.
        let (socket, peer) = Listener::accept(&mut self.listener).await;
        let until = Box::pin(tokio::time::sleep(self.idle));
        (Peer { socket, idle: self.idle, until, moved: 0, _permit: permit }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that has to move on.
pub(super) struct Peer {
    socket: TcpStream,
    idle: Duration,
    /// When it must have moved [`LEAST_BYTES`].
    until: Pin<Box<Sleep>>,
    /// Bytes sent and taken since the last look.
    moved: u64,
    _permit: OwnedSemaphorePermit,
}

impl Peer {
    /// What is not ready is an error once the peer has taken too long.
    fn or_late<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        while self.until.as_mut().poll(cx).is_ready() {
            if self.moved < LEAST_BYTES {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.moved = 0;
            self.until.as_mut().reset(Instant::now() + self.idle);
        }
        Poll::Pending
    }

    fn after_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => self.or_late(cx),
            Poll::Ready(written) => {
                self.moved += written.as_ref().map_or(0, |bytes| *bytes as u64);
                Poll::Ready(written)
            }
        }
    }
}

impl AsyncRead for Peer {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        match Pin::new(&mut this.socket).poll_read(cx, into) {
            Poll::Pending => this.or_late(cx),
            Poll::Ready(read) => {
                this.moved += (into.filled().len() - before) as u64;
                Poll::Ready(read)
            }
        }
    }
}

impl AsyncWrite for Peer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.after_write(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.socket).poll_write_vectored(cx, bytes);
        this.after_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
