//! What is shown of the pool, in CNS's words.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use berth_api::cns::{
    AddressStatus, Code, IpAddresses, Outcome, PodContext, RestData, ServiceData, StateFilter,
    by_interface,
};

use super::{NotDecoded, answer};
use crate::agent::Agent;

pub async fn ip_addresses(State(agent): State<Agent>, body: Bytes) -> Result<Response, NotDecoded> {
    let filter = StateFilter::read(&body)?;
    let mut addresses = statuses(&agent);
    addresses.retain(|status| filter.takes(status));
    let response = Outcome::default();
    Ok(answer(Code::Success, &IpAddresses { addresses, response }))
}

pub async fn pod_context(State(agent): State<Agent>) -> Response {
    let context = PodContext {
        pod_context: by_interface(&statuses(&agent)),
        response: Outcome::default(),
    };
    answer(Code::Success, &context)
}

pub async fn rest_data(State(agent): State<Agent>) -> Response {
    let statuses = statuses(&agent);
    let data = ServiceData {
        ids: by_interface(&statuses),
        states: statuses.into_iter().map(|status| (status.id.clone(), status)).collect(),
    };
    let response = Outcome::default();
    answer(Code::Success, &RestData { data, response })
}

fn statuses(agent: &Agent) -> Vec<AddressStatus> {
    agent.addresses().into_iter().map(AddressStatus::from).collect()
}
