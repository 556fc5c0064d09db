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

/// An answer that takes longer is not waited for: what it would have said is not known.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The same, where another member can be asked instead. Longer than an election takes.
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

    /// From the first member that answers: to read twice does no harm.
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

    /// Once: after an error nobody knows whether it was done, and who asks reads before it asks
    /// again. The next one goes to another member.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.ask("/etcdserverpb.KV/Txn", request).await
    }

    /// The first message says that the watch is there; all that happens from then on comes after
    /// it. On a connection of its own: what is not read of a watch yet would else hold up the
    /// answers to writes, for which its reader may be waiting.
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
            // The watch ends when we have nothing more to say: so we never end, and hold the line
            // meanwhile.
            let silence = stream::pending().inspect(move |_| drop(line.clone()));
            let requests = stream::once(async { request }).chain(silence);
            let mut requests = Request::new(requests);
            // A member that is cut off from the others ends the watch, instead of saying nothing.
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

    /// The one that is asked now.
    fn member(&self) -> Result<Member, Status> {
        let member = self.members.current();
        member.ok_or_else(|| Status::unavailable("etcd has no members"))
    }

    /// Leaves the member when it is of no use.
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
            self.members.leave(number);
        }
        answer
    }
}

/// And not of what was asked: another member may answer.
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
