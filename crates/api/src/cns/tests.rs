use serde_json::json;

use super::*;
use crate::agent::{AddressLine, AddressState};
use crate::cni::{Attachment, PodRef};

/// As azure-ipam sends it.
const FROM_AZURE_IPAM: &str = concat!(
    r#"{"desiredIPAddresses":null,"podInterfaceID":"c1","infraContainerID":"c1","#,
    r#""orchestratorContext":{"PodName":"web-1","PodNamespace":"shop"},"ifname":"eth0","#,
    r#""secondaryInterfacesExist":false,"BackendInterfaceExist":false,"BacknendInterfaceMacAddress":null}"#,
    "\n"
);

#[test]
fn a_request_is_read_as_azure_ipam_writes_it() {
    let request = IpConfigsRequest::read(FROM_AZURE_IPAM.as_bytes()).unwrap();
    assert_eq!(
        (
            request.pod_interface.as_str(),
            request.ifname.as_str(),
            request.desired.len()
        ),
        ("c1", "eth0", 0)
    );
    let context = request.context().unwrap();
    assert_eq!(
        (context.pod_name.as_str(), context.pod_namespace.as_str()),
        ("web-1", "shop")
    );
}

#[test]
fn a_request_is_written_with_the_names_of_the_wire() {
    let document = serde_json::to_value(IpConfigsRequest::default()).unwrap();
    let expected = json!({
        "desiredIPAddresses": [], "podInterfaceID": "", "infraContainerID": "", "orchestratorContext": null, "ifname": "",
        "secondaryInterfacesExist": false, "BackendInterfaceExist": false, "BacknendInterfaceMacAddress": [],
    });
    assert_eq!(document, expected);
}

#[test]
fn names_are_read_in_any_case_as_go_does() {
    let one = br#"{"DesiredIPAddress": "10.0.0.5", "PodInterfaceID": "c1", "OrchestratorContext": {"podName": "a", "PODNAMESPACE": "b"}, "Ifname": "net1"}"#;
    let request = IpConfigsRequest::read_one(one).unwrap();
    assert_eq!(
        (request.desired.as_slice(), request.ifname.as_str()),
        (&["10.0.0.5".to_owned()][..], "net1")
    );
    assert_eq!(request.context().unwrap().pod_namespace, "b");
}

#[test]
fn what_is_no_request_can_not_be_decoded() {
    for body in [
        "",
        "{",
        "[]",
        "7",
        r#""text""#,
        r#"{"podInterfaceID": 7}"#,
        r#"{"desiredIPAddresses": "10.0.0.1"}"#,
    ] {
        let error = IpConfigsRequest::read(body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("Failed to decode request: "), "{body}: {error}");
    }
}

#[test]
fn a_context_that_is_missing_is_told_from_one_that_is_wrong() {
    let context = |text: &str| IpConfigsRequest::read(text.as_bytes()).unwrap().context();
    for missing in ["{}", r#"{"orchestratorContext": null}"#] {
        assert_eq!(context(missing), Err(NotAContext::Missing));
    }
    for wrong in [r#""shop/web""#, "7", "[]", r#"{"podName": 7}"#] {
        let answer = context(&format!(r#"{{"orchestratorContext": {wrong}}}"#));
        assert!(matches!(answer, Err(NotAContext::Unreadable(_))), "{wrong}: {answer:?}");
    }
}

#[test]
fn an_answer_has_the_names_of_the_wire() {
    let info = PodIpInfo::new("10.64.3.7".parse().unwrap(), 16, Some("10.64.0.1".parse().unwrap()));
    let answer = IpConfigsResponse {
        pod_ip_info: vec![info.clone()],
        response: Outcome::default(),
    };
    let expected = json!({
        "podIPInfo": [{
            "PodIPConfig": {"IPAddress": "10.64.3.7", "PrefixLength": 16},
            "NetworkContainerPrimaryIPConfig": {
                "IPSubnet": {"IPAddress": "10.64.0.0", "PrefixLength": 16},
                "IPSubnetV6": {"IPAddress": "", "PrefixLength": 0},
                "DNSServers": [],
                "GatewayIPAddress": "10.64.0.1",
                "GatewayIPv6Address": "",
            },
            "HostPrimaryIPInfo": {"Gateway": "", "PrimaryIP": "", "Subnet": ""},
            "NICType": "InfraNIC",
            "InterfaceName": "",
            "MacAddress": "",
            "SkipDefaultRoutes": false,
            "Routes": [],
        }],
        "response": {"ReturnCode": 0, "Message": ""},
    });
    assert_eq!(serde_json::to_value(answer).unwrap(), expected);
    let one = IpConfigResponse {
        pod_ip_info: info,
        response: Outcome::default(),
    };
    let one = serde_json::to_value(one).unwrap();
    assert_eq!(one["PodIpInfo"], expected["podIPInfo"][0]);
    assert_eq!(one["Response"], expected["response"]);
}

#[test]
fn an_ipv6_address_has_its_own_prefix_and_gateway() {
    let info = PodIpInfo::new("fd64::7".parse().unwrap(), 64, Some("fd64::1".parse().unwrap()));
    let info = serde_json::to_value(info).unwrap();
    let around = &info["NetworkContainerPrimaryIPConfig"];
    assert_eq!(around["IPSubnet"], json!({"IPAddress": "fd64::", "PrefixLength": 64}));
    assert_eq!(around["IPSubnetV6"], around["IPSubnet"]);
    assert_eq!(
        (&around["GatewayIPAddress"], &around["GatewayIPv6Address"]),
        (&json!(""), &json!("fd64::1"))
    );
    let alone = PodIpInfo::new("10.0.0.1".parse().unwrap(), 0, None);
    assert_eq!(alone.container.subnet.address, "0.0.0.0");
}

#[test]
fn a_failed_release_is_told_where_the_client_looks() {
    let released = Released::from(Outcome::failure(Code::Unexpected, "no room"));
    assert_eq!(
        serde_json::to_value(released).unwrap(),
        json!({
            "response": {"ReturnCode": 99, "Message": "no room"},
            "ReturnCode": 99,
            "Message": "no room",
        })
    );
}

#[test]
fn addresses_are_shown_by_state_and_by_interface() {
    let line = |address: &str, state, container: Option<&str>| AddressLine {
        address: address.parse().unwrap(),
        state,
        name: format!("id-{address}"),
        container: "nc".to_owned(),
        attachment: container.map(|container| Attachment::new(container, "eth0").unwrap()),
        pod: container.map(|_| PodRef {
            namespace: "shop".to_owned(),
            name: "web-1".to_owned(),
            uid: String::new(),
        }),
    };
    let statuses: Vec<AddressStatus> = [
        line("10.0.0.1", AddressState::Assigned, Some("c1")),
        line("fd00::1", AddressState::Assigned, Some("c1")),
        line("10.0.0.2", AddressState::Free, None),
        line("10.0.0.3", AddressState::Releasing, None),
    ]
    .map(AddressStatus::from)
    .into();
    let document = serde_json::to_value(&statuses[0]).unwrap();
    assert_eq!(
        document,
        json!({
            "state": "Assigned", "ID": "id-10.0.0.1", "IPAddress": "10.0.0.1", "NCID": "nc",
            "PodInfo": {"PodName": "web-1", "PodNamespace": "shop", "PodInfraContainerID": "c1", "PodInterfaceID": "c1"},
        })
    );
    assert_eq!(inspect::by_interface(&statuses)["c1"], ["id-10.0.0.1", "id-fd00::1"]);
    let taken = |body: &str| {
        let filter = StateFilter::read(body.as_bytes()).unwrap();
        statuses.iter().filter(|status| filter.takes(status)).count()
    };
    assert_eq!(taken(""), 4);
    assert_eq!(taken(r#"{"IPConfigStateFilter": ["Available", "PendingRelease"]}"#), 2);
    assert_eq!(taken(r#"{"IPConfigStateFilter": null}"#), 4);
    assert!(StateFilter::read(b"[").is_err());
}
