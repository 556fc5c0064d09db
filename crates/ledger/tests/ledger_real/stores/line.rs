//! A line to a server that can fail as lines do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use berth_ledger::store::Written;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::promises::Pair;
use super::records;

pub struct Line {
    pub address: SocketAddr,
    /// How often it was cut. Connections from before end.
    cuts: watch::Sender<u32>,
    /// Connections that were made before so many cuts are deaf.
    deaf_before: Arc<AtomicU32>,
}

impl Line {
    /// To `server`, with TLS on the near side when there is an acceptor.
    pub async fn to(server: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (cuts, cut) = watch::channel(0);
        let line = Self {
            address: listener.local_addr().unwrap(),
            cuts,
            deaf_before: Arc::default(),
        };
        let deaf_before = Arc::clone(&line.deaf_before);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let mut cut = cut.clone();
                let made = *cut.borrow_and_update();
                let (deaf_before, tls) = (Arc::clone(&deaf_before), tls.clone());
                tokio::spawn(async move {
                    let far = TcpStream::connect(server).await?;
                    let is_deaf = || made < deaf_before.load(Ordering::SeqCst);
                    let carried = async {
                        match tls {
                            Some(tls) => carry(tls.accept(near).await?, far, is_deaf).await,
                            None => carry(near, far, is_deaf).await,
                        }
                    };
                    tokio::select! {
                        carried = carried => carried,
                        _ = cut.changed() => Ok(()),
                    }
                });
            }
        });
        line
    }

    /// From now on requests get through, and answers do not, until the line is cut.
    pub fn be_deaf(&self) {
        self.deaf_before.store(*self.cuts.borrow() + 1, Ordering::SeqCst);
    }

    /// Ends all connections. New ones are whole; an answer that comes before those from before have
    /// ended does not get through.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn carry(
    near: impl AsyncRead + AsyncWrite,
    far: TcpStream,
    is_deaf: impl Fn() -> bool,
) -> std::io::Result<()> {
    let (mut from_near, mut to_near) = split(near);
    let (mut from_far, mut to_far) = far.into_split();
    let requests = async { tokio::io::copy(&mut from_near, &mut to_far).await.map(drop) };
    let answers = async {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = from_far.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            if !is_deaf() {
                to_near.write_all(&buffer[..count]).await?;
                to_near.flush().await?;
            }
        }
    };
    tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
    }
}

/// The promise of both servers' stores. `pair.one` is on the line.
pub async fn a_write_without_an_answer_is_unknown(pair: &Pair, line: &Line) {
    let write = pair.write(1, None, records::of("a"));
    let key = write.key.clone();
    // On a connection that is there already: to make one takes answers.
    assert_eq!(pair.one.read(&key).await.unwrap(), None);
    line.be_deaf();
    let store = Arc::clone(&pair.one);
    let writing = tokio::spawn(async move { store.write(vec![write]).await });
    while pair.other.read(&key).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    line.cut();
    assert_eq!(writing.await.unwrap(), [Written::Unknown]);
    // The first to use a line that was cut may be the one to find out.
    let found = loop {
        if let Ok(found) = pair.one.read(&key).await {
            break found;
        }
    };
    assert_eq!(*found.unwrap().record, records::of("a"));
}
