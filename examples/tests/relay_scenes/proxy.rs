//! A link that can be cut.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Passes connections on to one address, until it is cut.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    whole: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (whole, is_whole) = watch::channel(true);
        Self { address, whole, task: tokio::spawn(pass_on(listener, target, is_whole)) }
    }

    /// Breaks all connections, and every new one at once.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(listener: TcpListener, target: SocketAddr, mut is_whole: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let (Ok((mut from, _)), true) = (accepted, *is_whole.borrow()) {
                connections.spawn(async move {
                    if let Ok(mut to) = TcpStream::connect(target).await {
                        _ = copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            },
            changed = is_whole.changed() => match changed {
                Ok(()) if *is_whole.borrow_and_update() => {}
                Ok(()) => connections.abort_all(),
                Err(_) => return,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
