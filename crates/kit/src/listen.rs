//! Binds the listener that a flag asks for. Port 0 picks a free port; the bound address is
//! returned.

use std::{io, net::SocketAddr};

use tokio::net::TcpListener;

/// One line for the person who started the process: which flag, which address, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "{flag} {address}: another process listens there; stop it or give {flag} \
         another port (0 picks a free one)"
    )]
    InUse { flag: &'static str, address: SocketAddr },
    #[error("{flag} {address}: cannot listen there: {error}")]
    Refused {
        flag: &'static str,
        address: SocketAddr,
        error: io::Error,
    },
}

/// Binds what `flag` asks for, and returns the address that was bound, which differs from `address`
/// when its port is 0.
pub async fn bind(
    flag: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), BindError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { flag, address },
        _ => BindError::Refused { flag, address, error },
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_0_tells_the_port_it_picked() {
        let (listener, bound) = bind("--listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        assert_ne!(bound.port(), 0);
        assert_eq!(listener.local_addr().unwrap(), bound);
    }

    #[tokio::test]
    async fn a_port_in_use_is_one_line_that_names_flag_and_address() {
        let (_listener, bound) = bind("--listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let error = bind("--api-listen", bound).await.unwrap_err().to_string();
        assert!(error.contains("--api-listen"), "{error}");
        assert!(error.contains(&bound.to_string()), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_refused_with_the_reason() {
        let error = bind("--listen", "192.0.2.1:0".parse().unwrap()).await.unwrap_err();
        assert!(matches!(error, BindError::Refused { .. }), "{error}");
    }
}
