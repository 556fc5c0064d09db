//! A way to the API server whose watches can be cut, and which can lead to another one.

use std::sync::{Arc, Mutex};

use futures::{StreamExt, TryStreamExt};
use http_body_util::{BodyStream, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Default)]
pub struct Connection {
    cut: Arc<Mutex<CancellationToken>>,
    /// The server that has taken the place of the first one.
    instead: Arc<Mutex<Option<Client>>>,
}

impl Connection {
    /// All watches that are open now end, as if the API server had been started again.
    pub fn cut(&self) {
        let mut cut = self.cut.lock().unwrap();
        std::mem::take(&mut *cut).cancel();
    }

    pub fn lead_to(&self, client: Client) {
        *self.instead.lock().unwrap() = Some(client);
        self.cut();
    }

    pub fn to(&self, client: Client) -> Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let instead = this.instead.lock().unwrap().clone();
            let client = instead.unwrap_or_else(|| client.clone());
            let cut = this.cut.lock().unwrap().clone();
            let query = request.uri().query().unwrap_or_default();
            let watches = query.split('&').any(|part| part == "watch=true");
            async move {
                // Only what goes on is cut; all others are answered.
                let cut = if watches { cut } else { CancellationToken::new() };
                let answer = client.send(request).await?;
                Ok::<_, kube::Error>(answer.map(|body| {
                    let frames = BodyStream::new(body).map_err(std::io::Error::other);
                    StreamBody::new(Box::pin(frames.take_until(cut.cancelled_owned())))
                }))
            }
        });
        Client::new(service, "default")
    }
}
