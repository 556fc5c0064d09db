//! An extender that passes every node without a check. It shows what any extender that filters,
//! prioritizes and binds costs kube-scheduler.

use kube::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Serves until it is dropped.
pub struct Passing {
    pub port: u16,
    serving: JoinHandle<()>,
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Passing {
    pub async fn start(client: &Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = client.clone();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, client.clone()));
            }
        });
        Self { port, serving }
    }
}

/// Serves one connection, call after call, until the scheduler closes it.
async fn serve(stream: TcpStream, client: Client) {
    stream.set_nodelay(true).unwrap();
    let mut stream = BufReader::new(stream);
    while let Some((path, body)) = read(&mut stream).await {
        let answer = match path.as_str() {
            "/filter" => {
                let begin = body.find("\"NodeNames\":[").unwrap();
                let end = begin + body[begin..].find(']').unwrap();
                format!("{{{}]}}", &body[begin..end])
            }
            "/prioritize" => "[]".to_owned(),
            "/bind" => bind(&client, &body).await,
            _ => "{}".to_owned(),
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \
             {}\r\n\r\n{answer}",
            answer.len()
        );
        if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if path.is_empty() {
            path = line.split(' ').nth(1)?.to_owned();
        } else if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((path, String::from_utf8(body).ok()?))
}

async fn bind(client: &Client, body: &str) -> String {
    let args: Value = serde_json::from_str(body).unwrap();
    let text = |name: &str| args[name].as_str().unwrap().to_owned();
    let (namespace, name) = (text("PodNamespace"), text("PodName"));
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": text("PodUID")},
        "target": {"apiVersion": "v1", "kind": "Node", "name": text("Node")},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(binding.to_string().into_bytes()).unwrap();
    let error = client.request_text(request).await.err();
    json!({"Error": error.map(|error| error.to_string()).unwrap_or_default()}).to_string()
}
