//! Asks the server on this machine over its HTTP port, where what only an operator may ask for is served.

use std::net::SocketAddr;
use std::time::Duration;

use append_client::{Error, ErrorKind};
use append_server::config::DEFAULT_HTTP_PORT;
use append_server::http::ADMIN_HEADER;
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::listen;

/// Time that the server has to take the connection.
const CONNECT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// The server's HTTP address [default: 127.0.0.1:9874]
    #[arg(long, value_name = "HOST:PORT", value_parser = listen::address)]
    http: Option<SocketAddr>,
}

impl HttpArgs {
    /// Sends `GET` or `POST` of `path` and gives the body of a good answer; waits for it as long as it takes.
    ///
    /// # Errors
    /// [`ErrorKind::Connect`] when nobody listens, [`ErrorKind::Io`] with the server's words when it refused.
    pub(crate) async fn ask(&self, method: &str, path: &str) -> Result<String, Error> {
        let address = self
            .http
            .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], DEFAULT_HTTP_PORT)));
        let failed =
            |kind| move |error: std::io::Error| Error::new(kind, format!("{address}: {error}"));
        let mut stream = tokio::time::timeout(CONNECT, TcpStream::connect(address))
            .await
            .map_err(|_| Error::new(ErrorKind::Timeout, format!("{address} does not answer")))?
            .map_err(failed(ErrorKind::Connect))?;
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{ADMIN_HEADER}: 1\r\nContent-Length: 0\r\n\r\n"
        );
        stream
            .write_all(request.as_bytes())
            .await
            .map_err(failed(ErrorKind::Io))?;
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .await
            .map_err(failed(ErrorKind::Io))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            _ => {
                let said = if body.is_empty() { head } else { body };
                Err(Error::new(ErrorKind::Io, said.to_owned()))
            }
        }
    }
}
