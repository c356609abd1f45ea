//! Listeners on neighbouring ports.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use super::error::MockError;
use super::limits;

/// Listens on `count` ports in a row: routers are told the port of rank 0 and add the rank.
///
/// Port 0 lets the system choose the first one; the others may be taken, and then another first one is tried.
pub(super) fn listen_in_a_row(
    purpose: &'static str,
    host: IpAddr,
    first_port: u16,
    count: usize,
) -> Result<Vec<TcpListener>, MockError> {
    let attempts = if first_port == 0 { limits::PORT_ATTEMPTS } else { 1 };
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..attempts {
        match try_row(host, first_port, count) {
            Ok(listeners) => return Ok(listeners),
            Err(error) => last = error,
        }
    }
    let address = SocketAddr::new(host, first_port).to_string();
    Err(MockError::Listen { purpose, address, source: last })
}

fn try_row(host: IpAddr, first_port: u16, count: usize) -> io::Result<Vec<TcpListener>> {
    let first = TcpListener::bind((host, first_port))?;
    let mut port = first.local_addr()?.port();
    let mut listeners = vec![first];
    while listeners.len() < count {
        port = port.checked_add(1).ok_or(io::ErrorKind::AddrNotAvailable)?;
        listeners.push(TcpListener::bind((host, port))?);
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn ports_follow_each_other() {
        let listeners = listen_in_a_row("events", HOST, 0, 4).unwrap();
        let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        assert!(ports.windows(2).all(|pair| pair[1] == pair[0] + 1), "{ports:?}");
    }

    #[test]
    fn a_taken_port_is_named() {
        let taken = listen_in_a_row("HTTP", HOST, 0, 1).unwrap();
        let port = taken[0].local_addr().unwrap().port();
        let error = listen_in_a_row("HTTP", HOST, port, 1).unwrap_err();
        assert_eq!(error.to_string(), format!("mock engine: cannot listen for HTTP on 127.0.0.1:{port}"));
    }
}
