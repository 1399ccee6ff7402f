//! A connection whose client has to take what it is sent: one that asks and never reads would hold its place for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that fails when nothing of what is written to it goes out for a while.
#[derive(Debug)]
pub(crate) struct Patience<S> {
    limit: Duration,
    /// Runs while something waits to go out.
    stalled: Option<Pin<Box<Sleep>>>,
    stream: S,
}

impl<S> Patience<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self {
            limit,
            stalled: None,
            stream,
        }
    }

    fn or_late<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.or_late(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.or_late(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.or_late(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.or_late(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn who_takes_nothing_is_let_go_and_who_takes_little_at_a_time_is_not() {
        let (server, mut client) = tokio::io::duplex(16);
        let mut server = Patience::new(server, Duration::from_millis(20));
        let refused = server.write_all(&[7; 64]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(server);
        let mut taken = Vec::new();
        client.read_to_end(&mut taken).await.unwrap();
        assert_eq!(taken, [7; 16]);

        let (server, mut client) = tokio::io::duplex(16);
        let mut server = Patience::new(server, Duration::from_mins(1));
        let reading = tokio::spawn(async move {
            let mut byte = [0];
            let mut count = 0;
            while client.read(&mut byte).await.unwrap() > 0 {
                count += 1;
            }
            count
        });
        server.write_all(&[7; 6400]).await.unwrap();
        drop(server);
        assert_eq!(reading.await.unwrap(), 6400);
    }
}
