//! Custom resources: Berth's own, through the types that its controllers use.

mod refusals;
mod scale;
mod status;

use berth_api::{NodeNetworkConfig, Subnet, SubnetSpec};
use berth_testkit::until;
use berth_testkit::within;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::space::{in_space, unique};

/// Puts the definitions there, once, and waits until their kinds are served. They stay: other runs
/// use them at the same time.
pub async fn definitions(client: &Client) {
    static SERVED: OnceCell<()> = OnceCell::const_new();
    let serve = async || {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply("berth-tests").force();
        for crd in berth_api::crds::all() {
            let name = crd.name_any();
            api.patch(&name, &params, &Patch::Apply(&crd)).await.unwrap();
            let established = await_condition(api.clone(), &name, conditions::is_crd_established());
            within(&format!("{name} is established"), established).await.unwrap();
        }
        // Established comes a moment before the kind is served.
        let few = ListParams::default().limit(1);
        let subnets: Api<Subnet> = Api::all(client.clone());
        until("subnets are served", async || subnets.list(&few).await.ok()).await;
        let configs: Api<NodeNetworkConfig> = Api::all(client.clone());
        until("nodenetworkconfigs are served", async || configs.list(&few).await.ok()).await;
    };
    SERVED.get_or_init(serve).await;
}

/// A Subnet with just what is said: the typed one would write out the defaults itself.
pub fn subnet(name: &str, spec: Value) -> DynamicObject {
    let mut object = DynamicObject::new(name, &ApiResource::erase::<Subnet>(&()));
    object.data = json!({"spec": spec});
    object
}

pub fn subnets(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<Subnet>(&()))
}

#[test]
fn what_a_subnet_leaves_out_is_filled_in_from_its_definition() {
    in_space(async |space| {
        definitions(&space.client).await;
        let name = unique("defaults");
        let spec = json!({"cidrs": ["10.64.0.0/16"], "exhaustion": {"enterPercent": 99}, "gateways": null});
        let api = subnets(&space.client);
        let created = api.create(&PostParams::default(), &subnet(&name, spec)).await.unwrap();
        let typed = Api::<Subnet>::all(space.client.clone()).get(&name).await;
        api.delete(&name, &DeleteParams::default()).await.unwrap();

        let mut expected = SubnetSpec {
            cidrs: vec!["10.64.0.0/16".to_owned()],
            ..SubnetSpec::default()
        };
        expected.exhaustion.enter_percent = 99;
        assert_eq!(typed.unwrap().spec, expected);
        // They are in the answer and in the object, not in the reader's type alone.
        let spec = &created.data["spec"];
        assert_eq!(spec["use"], "pods");
        assert_eq!(spec["reuseDelay"], "30s");
        assert_eq!(spec["exhaustion"], json!({"enterPercent": 99, "leavePercent": 90}));
        assert_eq!(spec["scaler"]["batchSize"], 16);
        assert_eq!(spec.get("gateways"), None);
    });
}

#[test]
fn what_the_definition_does_not_know_is_dropped() {
    in_space(async |space| {
        definitions(&space.client).await;
        let name = unique("pruned");
        let spec = json!({"cidrs": ["10.64.0.0/16"], "color": "red", "scaler": {"speed": 9}});
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let created = subnets(&space.client)
            .create(&params, &subnet(&name, spec))
            .await
            .unwrap();
        assert_eq!(created.data["spec"].get("color"), None);
        assert_eq!(created.data["spec"]["scaler"].get("speed"), None);
    });
}
