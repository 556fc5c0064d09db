//! What containerd reports of a sandbox beyond the CRI: the result of its CNI plugins, with every
//! interface that the runtime attached. It is text for people, so the agent does not rely on it:
//! whatever is missing, or comes from another runtime, counts as no interface.

use std::collections::BTreeMap;

use serde_json::Value;

/// The addresses of each interface.
pub fn interfaces(info: &BTreeMap<String, String>) -> BTreeMap<String, Vec<String>> {
    let parsed: Option<Value> = info.get("info").and_then(|text| serde_json::from_str(text).ok());
    let all = parsed.as_ref().and_then(|info| info.pointer("/cniResult/Interfaces"));
    let all = all.and_then(Value::as_object).into_iter().flatten();
    let addresses = |(name, interface): (&String, &Value)| {
        let configs = interface["IPConfigs"].as_array().into_iter().flatten();
        let addresses = configs.filter_map(|config| config["IP"].as_str().map(str::to_owned));
        (name.clone(), addresses.collect::<Vec<_>>())
    };
    all.map(addresses)
        .filter(|(name, addresses)| name != "lo" && !addresses.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As containerd 1.7 says it, shortened.
    const INFO: &str = r#"{"pid": 4711, "processStatus": "running", "netNamespaceClosed": false, "cniResult": {
        "Interfaces": {
            "berth23rth8aqk1": {"IPConfigs": null, "Mac": "06:10:f1:a8:a1:57", "Sandbox": ""},
            "eth0": {"IPConfigs": [{"IP": "10.64.0.5", "Gateway": "169.254.1.1"}, {"IP": "fd64::5", "Gateway": ""}],
                     "Mac": "02:10:f1:a8:a1:57", "Sandbox": "/var/run/netns/cni-1"},
            "eth1": {"IPConfigs": [{"IP": "10.64.0.6", "Gateway": ""}], "Mac": "", "Sandbox": "/var/run/netns/cni-1"},
            "lo": {"IPConfigs": [{"IP": "127.0.0.1", "Gateway": ""}, {"IP": "::1", "Gateway": ""}], "Mac": "", "Sandbox": ""}
        }, "DNS": [{}, {}], "Routes": [{"dst": "0.0.0.0/0"}]}}"#;

    fn read(info: &str) -> BTreeMap<String, Vec<String>> {
        interfaces(&BTreeMap::from([("info".to_owned(), info.to_owned())]))
    }

    #[test]
    fn every_interface_of_containerds_result_has_its_addresses() {
        let found = read(INFO);
        let of = |name: &str| found[name].join(" ");
        assert_eq!(
            (found.len(), of("eth0").as_str(), of("eth1").as_str()),
            (2, "10.64.0.5 fd64::5", "10.64.0.6")
        );
    }

    #[test]
    fn another_runtimes_words_are_none() {
        assert!(interfaces(&BTreeMap::new()).is_empty());
        for info in [
            "",
            "[]",
            "{\"cniResult\": 7}",
            "{\"cniResult\": {\"Interfaces\": {\"eth0\": 7}}}",
        ] {
            assert!(read(info).is_empty(), "{info}");
        }
    }
}
