//! The calls that a store makes. The client is cheap to clone, and reconnects by itself.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::members::{EndpointError, Member, Members, connect};
use super::tls::EtcdTls;
use super::wire::{
    RangeRequest, RangeResponse, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest,
    WatchResponse,
};

/// The timeout of a request. After it, the outcome is not known.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout if another member can be asked instead. Longer than an election takes.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct Client {
    members: Arc<Members>,
}

impl Client {
    /// Connects when it is first used.
    pub fn new(endpoints: &[String], tls: Option<&EtcdTls>) -> Result<Self, EndpointError> {
        let members = Arc::new(Members::new(endpoints, tls)?);
        Ok(Self { members })
    }

    /// Asks one member after the other until one answers: a second read does no harm.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        let mut last = Status::unavailable("etcd has no members");
        for _ in 0..self.members.count() {
            match self.ask("/etcdserverpb.KV/Range", request.clone()).await {
                Err(status) if is_of_member(&status) => last = status,
                answered => return answered,
            }
        }
        Err(last)
    }

    /// Asks one member once. After an error it is not known whether the transaction was done, so
    /// the caller reads before it tries again. The next request goes to another member.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.ask("/etcdserverpb.KV/Txn", request).await
    }

    /// The first message says that the watch is open; all later changes follow it. A watch has a
    /// connection of its own: on a shared one, unread events would hold up the answers to writes,
    /// for which the watch's reader may be waiting.
    pub async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let request = WatchRequest {
            create_request: Some(create),
        };
        let member = self.member()?;
        let mut grpc = connect(&member.endpoint);
        let opening = async {
            let line = grpc.clone();
            // The watch ends with our stream of requests, so that stream never ends and keeps the
            // connection.
            let silence = stream::pending().inspect(move |_| drop(line.clone()));
            let requests = stream::once(async { request }).chain(silence);
            let mut requests = Request::new(requests);
            // A member that is cut off from the others then ends the watch instead of staying
            // silent.
            let requires_leader = MetadataValue::from_static("true");
            requests.metadata_mut().insert("hasleader", requires_leader);
            ready(&mut grpc).await?;
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            let answer = grpc.streaming(requests, path, ProstCodec::default());
            let mut responses: Streaming<WatchResponse> = answer.await?.into_inner();
            match responses.message().await? {
                Some(first) if first.created && !first.canceled => Ok(responses),
                _ => Err(Status::unavailable("etcd refused the watch")),
            }
        };
        self.answer_of(&member, opening).await
    }

    async fn ask<Q, A>(&self, method: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let member = self.member()?;
        let mut grpc = member.grpc.clone();
        let asking = async {
            ready(&mut grpc).await?;
            let path = PathAndQuery::from_static(method);
            let answer = grpc.unary(Request::new(request), path, ProstCodec::default());
            Ok(answer.await?.into_inner())
        };
        self.answer_of(&member, asking).await
    }

    /// The member that is asked now.
    fn member(&self) -> Result<Member, Status> {
        let member = self.members.current();
        member.ok_or_else(|| Status::unavailable("etcd has no members"))
    }

    /// Waits for an answer, and switches to the next member if this one is of no use.
    async fn answer_of<T>(
        &self,
        member: &Member,
        asking: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let (number, uri) = (member.number, member.endpoint.uri());
        let timeout = match self.members.count() {
            1 => TIMEOUT,
            _ => MEMBER_TIMEOUT,
        };
        let asked = tokio::time::timeout(timeout, asking).await;
        let late = |_| Status::deadline_exceeded(format!("{uri} does not answer"));
        let answer = asked.map_err(late).and_then(|answer| answer);
        if answer.as_ref().is_err_and(is_of_member) {
            self.members.switch_from(number);
        }
        answer
    }
}

/// Whether the error is the member's and not the request's, so that another member may answer.
fn is_of_member(status: &Status) -> bool {
    !matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::Unauthenticated
            | Code::Unimplemented
    )
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))
}
