use serde_json::json;

use super::*;

fn read(conf: &Value, place: Place) -> Result<Conf, CniError> {
    read_for(conf, place, Need::All)
}

fn read_for(conf: &Value, place: Place, need: Need) -> Result<Conf, CniError> {
    Conf::read(&Document::read(conf.to_string().as_bytes())?, place, need)
}

fn delegated() -> Value {
    json!({"cniVersion": "1.1.0", "name": "pods", "type": "ptp", "ipam": {"type": "berth-ipam"}})
}

fn main_plugin() -> Value {
    json!({"cniVersion": "1.1.0", "name": "pods", "type": "berth-cni"})
}

fn with(mut conf: Value, field: &str, value: Value) -> Value {
    conf[field] = value;
    conf
}

#[test]
fn settings_are_under_ipam_or_for_a_main_plugin_at_the_top() {
    let settings = json!({
        "socket": "/a.sock", "queueDir": "/q", "timeout": "250ms", "wait": "2s",
        "reconnect": "20s",
    });
    let expected = Settings {
        socket: "/a.sock".to_owned(),
        queue_dir: "/q".to_owned(),
        timeout: Duration::from_millis(250),
        wait: Duration::from_secs(2),
        reconnect: Duration::from_secs(20),
    };
    let ipam = read(&with(delegated(), "ipam", settings.clone()), Place::Ipam).unwrap();
    assert_eq!((ipam.settings, ipam.mtu), (expected.clone(), None));
    let mut conf = main_plugin();
    conf.as_object_mut()
        .unwrap()
        .extend(settings.as_object().unwrap().clone());
    conf["mtu"] = json!(1400);
    let top = read(&conf, Place::Top).unwrap();
    assert_eq!((top.settings, top.mtu), (expected, Some(1400)));
}

#[test]
fn what_is_left_out_has_a_default() {
    let conf = read(&delegated(), Place::Ipam).unwrap();
    assert_eq!(conf.settings, Settings::default());
    assert_eq!(conf.settings.socket, "/run/berth/agent.sock");
    assert_eq!(conf.settings.queue_dir, "/var/lib/berth/release-queue");
    assert_eq!(
        (conf.settings.timeout, conf.settings.wait),
        (Duration::from_secs(5), Duration::ZERO)
    );
    assert_eq!((conf.valid, conf.previous, conf.desired.len()), (None, None, 0));
}

#[test]
fn a_gc_is_understood_by_either_of_its_names() {
    for field in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        let conf = with(delegated(), field, json!([{"containerID": "c1", "ifname": "eth0"}]));
        let valid = read(&conf, Place::Ipam).unwrap().valid.unwrap();
        assert_eq!(valid, [Attachment::new("c1", "eth0").unwrap()]);
    }
}

#[test]
fn desired_addresses_come_from_the_runtime_in_either_form() {
    let conf = with(
        delegated(),
        "runtimeConfig",
        json!({"ips": ["10.64.0.9/16", "fd64::9"]}),
    );
    let conf = with(conf, "args", json!({"cni": {"ips": ["10.64.0.9"]}}));
    let desired = read(&conf, Place::Ipam).unwrap().desired;
    assert_eq!(
        desired,
        ["10.64.0.9".parse::<IpAddr>().unwrap(), "fd64::9".parse().unwrap()]
    );
}

#[test]
fn what_is_wrong_is_named_with_its_code() {
    let ipam = |settings: Value| with(delegated(), "ipam", settings);
    let cases = [
        (with(delegated(), "cniVersion", json!("0.2.0")), 1, "cniVersion 0.2.0"),
        (with(delegated(), "cniVersion", json!("9.9.9")), 1, "cniVersion 9.9.9"),
        (with(delegated(), "cniVersion", json!(null)), 1, "cniVersion 0.2.0"),
        (with(delegated(), "cniVersion", json!(1)), 7, "cniVersion is 1"),
        (with(delegated(), "name", json!("")), 7, "name is"),
        (with(delegated(), "name", json!("../x")), 7, "name is"),
        (with(delegated(), "name", json!(7)), 7, "name is"),
        (ipam(json!([])), 7, "ipam is"),
        (ipam(json!({"socket": 7})), 7, "ipam.socket"),
        (ipam(json!({"socket": "agent.sock"})), 7, "ipam.socket"),
        (
            ipam(json!({"socket": format!("/{}", "x".repeat(107))})),
            7,
            "ipam.socket",
        ),
        (ipam(json!({"queueDir": "queue"})), 7, "ipam.queueDir"),
        (ipam(json!({"queueDir": "/a\0b"})), 7, "ipam.queueDir"),
        (ipam(json!({"wait": "soon"})), 7, "ipam.wait"),
        (ipam(json!({"wait": "3600s"})), 7, "ipam.wait"),
        (ipam(json!({"wait": "-1s"})), 7, "ipam.wait"),
        (ipam(json!({"timeout": "0s"})), 7, "ipam.timeout"),
        (ipam(json!({"timeout": "5"})), 7, "ipam.timeout"),
        (ipam(json!({"timeout": 5})), 7, "ipam.timeout"),
        (ipam(json!({"routes": {}})), 7, "ipam.routes"),
        (ipam(json!({"routes": [{"dst": "10.0.0.0"}]})), 7, "ipam.routes"),
        (
            ipam(json!({"routes": [{"dst": "10.0.0.0/8", "gw": "x"}]})),
            7,
            "ipam.routes",
        ),
        (
            with(delegated(), "runtimeConfig", json!({"ips": ["x"]})),
            7,
            "runtimeConfig.ips",
        ),
        (
            with(delegated(), "args", json!({"cni": {"ips": "x"}})),
            7,
            "args.cni.ips",
        ),
        (
            with(delegated(), "cni.dev/valid-attachments", json!({})),
            7,
            "cni.dev/valid-attachments",
        ),
        (
            with(
                delegated(),
                "cni.dev/valid-attachments",
                json!([{"containerID": "a/b", "ifname": "eth0"}]),
            ),
            7,
            "cni.dev/valid-attachments[0]",
        ),
        (
            with(delegated(), "cni.dev/attachments", json!([7])),
            7,
            "cni.dev/attachments[0]",
        ),
    ];
    for (conf, code, named) in cases {
        let failure = read(&conf, Place::Ipam).unwrap_err();
        assert_eq!(failure.code.number(), code, "{conf}");
        assert!(failure.msg.starts_with(named), "{}", failure.msg);
    }
    let cases = [
        (with(main_plugin(), "mtu", json!(-1)), 7, "mtu is"),
        (with(main_plugin(), "mtu", json!(70_000)), 7, "mtu is"),
        (with(main_plugin(), "mtu", json!("1500")), 7, "mtu is"),
        (with(main_plugin(), "timeout", json!("x")), 7, "timeout is"),
        (
            with(main_plugin(), "ipam", json!({"type": "host-local"})),
            2,
            "ipam is {\"type\":\"host-local\"}",
        ),
    ];
    for (conf, code, named) in cases {
        let failure = read(&conf, Place::Top).unwrap_err();
        assert_eq!(failure.code.number(), code, "{conf}");
        assert!(failure.msg.starts_with(named), "{}", failure.msg);
    }
}

#[test]
fn a_del_reads_the_socket_the_queue_and_the_timeout_alone() {
    let settings = json!({
        "socket": "/a.sock", "queueDir": "/q", "timeout": "250ms",
        "wait": 7, "reconnect": 7, "routes": 7, "mtu": "1450",
    });
    let others = json!({
        "name": "../x", "runtimeConfig": {"ips": 7}, "args": {"cni": {"ips": "x"}},
        "cni.dev/valid-attachments": {}, "prevResult": 7,
    });
    for (place, mut conf) in [(Place::Ipam, delegated()), (Place::Top, main_plugin())] {
        let own = match place {
            Place::Ipam => conf["ipam"].as_object_mut().unwrap(),
            Place::Top => conf.as_object_mut().unwrap(),
        };
        own.extend(settings.as_object().unwrap().clone());
        let top = conf.as_object_mut().unwrap();
        top.extend(others.as_object().unwrap().clone());
        if place == Place::Top {
            conf["ipam"] = json!({"type": "host-local"});
        }
        assert!(read(&conf, place).is_err());
        let read = read_for(&conf, place, Need::Release).unwrap();
        let expected = Settings {
            socket: "/a.sock".to_owned(),
            queue_dir: "/q".to_owned(),
            timeout: Duration::from_millis(250),
            wait: Duration::ZERO,
            reconnect: Duration::ZERO,
        };
        assert_eq!(read.settings, expected);
    }
    // What it needs is checked.
    for field in ["socket", "queueDir", "timeout"] {
        let failure = read_for(&with(main_plugin(), field, json!(7)), Place::Top, Need::Release);
        assert!(failure.unwrap_err().msg.starts_with(field), "{field}");
    }
}

#[test]
fn a_gc_reads_the_name_and_what_is_valid_and_no_queue() {
    let mut conf = with(delegated(), "cni.dev/valid-attachments", json!([]));
    conf["runtimeConfig"] = json!({"ips": 7});
    conf["ipam"]["queueDir"] = json!(7);
    conf["ipam"]["wait"] = json!(7);
    conf["ipam"]["routes"] = json!(7);
    let read = read_for(&conf, Place::Ipam, Need::Collect).unwrap();
    assert_eq!((read.name.as_str(), read.valid), ("pods", Some(Vec::new())));
    for (field, wrong) in [("name", json!("../x")), ("cni.dev/valid-attachments", json!(7))] {
        let failure = read_for(&with(conf.clone(), field, wrong), Place::Ipam, Need::Collect);
        assert!(failure.unwrap_err().msg.starts_with(field), "{field}");
    }
}

#[test]
fn what_is_no_json_object_can_not_be_decoded() {
    for text in [
        &b"{"[..],
        b"[]",
        b"",
        b"\xff\xfe",
        b"{} {}",
        &vec![b' '; MAX_CONF_BYTES + 1],
    ] {
        assert_eq!(Document::read(text).unwrap_err().code, Code::Undecodable);
    }
}
