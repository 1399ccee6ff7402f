//! Taking connections: a bounded number of them, each with a time limit on what it has to say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::access::{Reach, Token};
use crate::patience::Patience;
use crate::routes;
use crate::{View, ViewError};

/// Connections at a time; more wait in the kernel's queue. Soft limits of descriptors begin at 1024.
const CONNECTIONS: usize = 512;
/// How long the head of a request may take; also how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a client may take nothing of what it is sent.
const TAKE_TIME: Duration = Duration::from_secs(30);
/// Bytes of the head of a request: path, query and headers.
const HEAD_BYTES: usize = 32 << 10;
/// How long to wait where a connection cannot be taken, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A page that is listened for. Nobody is answered until [`Server::serve`].
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    listener: TcpListener,
    token: Token,
}

impl Server {
    /// Listens at `address`, with a port that is free where that is 0. To be called within a tokio runtime.
    pub async fn bind(address: SocketAddr) -> Result<Self, ViewError> {
        let token = Token::random()?;
        let refused = |source| ViewError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self {
            address,
            listener,
            token,
        })
    }

    /// Returns where the page is, token included.
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            // That is no address to ask; this machine itself is there too.
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("http://{address}/{}/", self.token)
    }

    /// Returns whether others than this machine can ask.
    pub fn is_open_to_others(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    /// Answers until it is dropped.
    pub async fn serve(self, view: View) {
        let reach = if self.is_open_to_others() {
            Reach::Network
        } else {
            Reach::Loopback
        };
        let view = Arc::new(view);
        if view.reads_ahead {
            let view = Arc::clone(&view);
            tokio::spawn(async move { view.read_ahead().await });
        }
        let router = routes::router(&self.token, reach, view);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let router = router.clone();
                    tokio::spawn(async move {
                        talk(stream, router).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "A connection cannot be taken.");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Answers the requests of one connection.
async fn talk(stream: TcpStream, router: axum::Router) {
    // Small answers go out at once; that it cannot be set is no reason not to answer.
    _ = stream.set_nodelay(true);
    let stream = Patience::new(stream, TAKE_TIME);
    let talked = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = talked {
        tracing::debug!(%error, "A connection ended early.");
    }
}
