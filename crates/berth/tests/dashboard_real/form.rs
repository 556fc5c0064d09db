//! The forms for networks of Clusters and Machines, in a real Chromium.

use berth_api::machines::{Shape, cluster};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::up::{Berth, screenshots};

pub fn clusters(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &cluster::resource())
}

pub async fn make_cluster(client: &Client, name: &str, cloud: Value) {
    let object = serde_json::from_value(json!({
        "apiVersion": "kubermatic.k8s.io/v1", "kind": "Cluster",
        "metadata": {"name": name}, "spec": {"cloud": cloud},
    }));
    let params = PostParams::default();
    clusters(client).create(&params, &object.unwrap()).await.unwrap();
}

async fn spec(client: &Client) -> Value {
    clusters(client).get("blue").await.unwrap().data["spec"].clone()
}

#[tokio::test]
async fn a_machine_network_is_made_and_grows_and_does_not_shrink() {
    let berth = Berth::start(&["--in-memory"]);
    let client = berth.client().await;
    make_cluster(&client, "blue", json!({"vsphere": {}})).await;
    make_cluster(&client, "green", json!({"aws": {}})).await;
    let mut browser = berth.browser();
    browser.size(1440, 900, "light");

    // Offered for vSphere alone, and off.
    browser.open("clusters");
    browser.wait("a[href='#/clusters/blue']");
    let offered =
        browser.evaluate("document.querySelectorAll(\"a[href='#/clusters/green']\").length");
    assert_eq!(offered, 0);
    browser.click("a[href='#/clusters/blue']");
    browser.wait("#on:not(:checked)");
    browser.has("form", "Nothing: the cluster has what the form says");
    assert!(browser.is_disabled("button.main"));

    // On: what is wrong is told while one types, by the server's rules.
    browser.click("#on");
    browser.fill("#cidr-0", "192.168.1.129/25");
    browser.has("#errors-0", "host bits set: write 192.168.1.128/25");
    browser.wait("#cidr-0[aria-invalid='true']");
    browser.fill("#cidr-0", "192.168.1.128/25");
    browser.fill("#gateway-0", "fd00::1");
    browser.has("#errors-0", "of another family");
    browser.fill("#gateway-0", "192.168.1.1");
    browser.fill("#dns-0", "192.168.1.1, 192.168.1.300");
    browser.has("#errors-0", "dnsServers[1]");
    browser.fill("#dns-0", "192.168.1.1, 192.168.1.2");
    browser.has("#fit-0", "126 machines fit");
    browser.click("#add");
    browser.fill("#cidr-1", "192.168.1.0/24");
    browser.has("#errors-1", "192.168.1.128/25 and 192.168.1.0/24 overlap");
    browser.fill("#cidr-1", "10.64.9.0/24");
    browser.has("[data-row='1']", "10.64.0.0/16 of the Subnet pods");
    browser.fill("#gateway-1", "10.64.9.1");
    browser.has("#fit", "379 machines");
    let yaml = browser.has(".yaml", "10.64.9.1");
    assert!(browser.is_disabled("button.main"), "without a token");

    // The token is looked at before it is needed.
    browser.fill("#token", "not-the-token-of-it");
    browser.has("#token-hint", "This is not the token");
    browser.fill("#token", &berth.token);
    browser.has("#token-hint", "Changes need the token");
    assert_eq!(spec(&client).await, json!({"cloud": {"vsphere": {}}}), "nothing yet");
    browser.wait("button.main:not(:disabled)");
    browser.shot(&screenshots().join("form-filled-1440-light.png"));
    browser.click("button.main:not(:disabled)");
    browser.has(".success", "Applied to the Cluster blue");
    let two = json!([
        {
            "cidr": "192.168.1.128/25", "gateway": "192.168.1.1",
            "dnsServers": ["192.168.1.1", "192.168.1.2"],
        },
        {"cidr": "10.64.9.0/24", "gateway": "10.64.9.1"},
    ]);
    assert_eq!(spec(&client).await["machineNetworks"], two);
    let shown: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(
        shown["spec"]["machineNetworks"], two,
        "what was shown is what was applied"
    );

    // Later one is added.
    browser.click("#add");
    browser.fill("#cidr-2", "10.7.0.0/28");
    browser.has("#fit-2", "14 machines fit");
    browser.click("button.main:not(:disabled)");
    browser.has(".success", "Applied");
    let three = spec(&client).await;
    assert_eq!(three["machineNetworks"][2], json!({"cidr": "10.7.0.0/28"}));

    // Removing, changing, moving and turning off are refused, and why.
    let reason = "machines may have addresses of it";
    for step in ["#remove-1", "#up-1", "#on"] {
        browser.click(step);
        browser.has("#general", reason);
        assert!(browser.is_disabled("button.main"), "{step}");
        if step == "#remove-1" {
            browser.shot(&screenshots().join("form-refused-1440-light.png"));
        }
        browser.click("#back");
        browser.wait("#on:checked");
        browser.wait("#cidr-2");
        browser.has("form", "Nothing: the cluster has what the form says");
    }
    browser.fill("#cidr-0", "192.168.1.128/26");
    browser.has("#general", reason);
    assert!(browser.is_disabled("button.main"));
    assert_eq!(spec(&client).await, three);
    assert_eq!(browser.errors(), [""; 0]);
}

#[tokio::test]
async fn a_stale_form_reports_the_conflict_and_writes_nothing() {
    let berth = Berth::start(&["--in-memory"]);
    let client = berth.client().await;
    make_cluster(&client, "blue", json!({"vsphere": {}})).await;
    let mut browser = berth.browser();
    browser.size(1440, 900, "light");
    browser.open("clusters/blue");
    browser.click("#on");
    browser.fill("#cidr-0", "10.1.0.0/24");
    browser.fill("#token", &berth.token);
    browser.wait("button.main:not(:disabled)");
    let theirs = json!({"spec": {"machineNetworks": [{"cidr": "10.2.0.0/24"}]}});
    let params = PatchParams::default();
    clusters(&client)
        .patch("blue", &params, &Patch::Merge(theirs))
        .await
        .unwrap();
    browser.click("button.main");
    browser.has(".outcome", "Somebody else has changed the Cluster blue");
    assert_eq!(spec(&client).await["machineNetworks"], json!([{"cidr": "10.2.0.0/24"}]));
    // The next key tells as well, with the way on.
    browser.fill("#cidr-0", "10.3.0.0/24");
    browser.click("#reload");
    browser.wait("#on:checked");
    browser.has("form", "Nothing: the cluster has what the form says");
    assert_eq!(
        browser.evaluate("document.querySelector('#cidr-0').value"),
        "10.2.0.0/24"
    );
}

#[tokio::test]
async fn a_machine_is_made_with_a_network_by_hand() {
    let berth = Berth::start(&["--in-memory"]);
    let client = berth.client().await;
    let mut browser = berth.browser();
    browser.size(1440, 900, "light");
    browser.open("machines");
    browser.click("a[href='#/machines/new']");
    browser.wait("#on:not(:checked)");
    browser.fill("#name", "by-hand");
    browser.has(".yaml", "by-hand");
    browser.click("#on");
    browser.fill("#cidr-0", "192.168.1.128/25");
    browser.has("#errors-0", "is the network's own");
    browser.fill("#cidr-0", "192.168.1.200/25");
    browser.fill("#gateway-0", "192.168.1.1");
    browser.fill("#dns", "192.168.1.1");
    browser.has("[data-row='0']", "in no Subnet for machines");
    browser.fill("#token", &berth.token);
    browser.wait("button.main:not(:disabled)");
    browser.shot(&screenshots().join("machine-filled-1440-light.png"));
    browser.click("button.main:not(:disabled)");
    browser.has(".success", "Applied to the Machine by-hand");
    let resource = Shape::ProviderSpec.resource();
    let api = Api::<DynamicObject>::namespaced_with(client, "default", &resource);
    let network =
        &api.get("by-hand").await.unwrap().data["spec"]["providerSpec"]["value"]["network"];
    let expected = json!({
        "cidr": "192.168.1.200/25", "gateway": "192.168.1.1", "dns": {"servers": ["192.168.1.1"]},
    });
    assert_eq!(*network, expected);
    // And stays: the machine may be built with it.
    browser.open("machines");
    browser.click("a[href='#/machines/cluster.k8s.io/default/by-hand']");
    browser.wait("#on:checked");
    browser.click("#on");
    browser.has("#general", "is 192.168.1.200/25 and stays so");
    // One that waits is explained below the list, which a click must not miss.
    browser.open("machines/new");
    browser.fill("#name", "waits");
    browser.fill("#token", &berth.token);
    browser.click("button.main:not(:disabled)");
    browser.has(".success", "Applied to the Machine waits");
    browser.open("machines");
    browser.has(".card:has(table) + .card h3", "default/waits");
    browser.has(".card:has(table) + .card", "give `berth machine-ipam` a --network");
    browser.shot(&screenshots().join("machine-waits-1440-light.png"));
    assert_eq!(browser.errors(), [""; 0]);
}

#[tokio::test]
async fn everybody_can_read_the_forms_on_a_desk_and_on_a_phone() {
    let berth = Berth::start(&["--in-memory"]);
    let client = berth.client().await;
    make_cluster(&client, "blue", json!({"vsphere": {}})).await;
    let mut browser = berth.browser();
    for (width, height) in [(1440, 900), (360, 740)] {
        for theme in ["light", "dark"] {
            browser.size(width, height, theme);
            browser.open("clusters");
            browser.wait("a[href='#/clusters/blue']");
            let shot = |name: &str| screenshots().join(format!("{name}-{width}-{theme}.png"));
            assert_eq!(browser.faults(), [""; 0], "clusters at {width} in {theme}");
            browser.shot(&shot("clusters"));
            browser.open("clusters/blue");
            browser.click("#on");
            browser.fill("#cidr-0", "192.168.1.128/25");
            browser.fill("#gateway-0", "192.168.1.1");
            browser.click("#add");
            browser.fill("#cidr-1", "10.64.9.7/24");
            browser.has("#errors-1", "host bits");
            browser.fill("#token", "not-the-token-of-it");
            browser.has("#token-hint", "This is not the token");
            assert_eq!(browser.faults(), [""; 0], "the form at {width} in {theme}");
            browser.shot(&shot("form"));
            browser.open("machines/new");
            browser.fill("#name", "machine1");
            browser.click("#on");
            browser.fill("#cidr-0", "192.168.1.129/25");
            browser.fill("#gateway-0", "192.168.1.1");
            browser.has("[data-row='0']", "in no Subnet for machines");
            assert_eq!(browser.faults(), [""; 0], "a machine at {width} in {theme}");
            browser.shot(&shot("machine"));
        }
    }
    assert_eq!(browser.errors(), [""; 0]);
}
