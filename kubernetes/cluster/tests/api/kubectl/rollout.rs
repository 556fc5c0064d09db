//! Revisions of Deployments. Without pods, so that no node is needed.

use berth_testkit::until_so;

use super::{Kubectl, each};
use crate::target::{Capability, target};

fn reaches(kubectl: &Kubectl, revision: &str) {
    until_so(&format!("the Deployment is at revision {revision}"), || {
        let deployment = kubectl.json("get deployment web");
        deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
    });
}

#[test]
fn a_changed_template_is_a_revision_that_can_be_undone() {
    if !target().has(Capability::Controllers) {
        return;
    }
    each(|kubectl| {
        kubectl.ok("create deployment web --image=x --replicas=0");
        reaches(kubectl, "1");
        kubectl.ok("set image deployment/web x=y");
        reaches(kubectl, "2");
        let said = kubectl.ok("rollout status deployment web --timeout=300s");
        assert!(said.contains("deployment \"web\" successfully rolled out"), "{said}");
        let history = kubectl.ok("rollout history deployment web");
        assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
        let first = kubectl.ok("rollout history deployment web --revision=1");
        assert!(first.contains("Image:\tx"), "{first}");

        assert_eq!(
            kubectl.ok("rollout undo deployment web"),
            "deployment.apps/web rolled back\n"
        );
        // The set that is there already is used again, under a new number.
        reaches(kubectl, "3");
        let history = kubectl.ok("rollout history deployment web");
        assert!(!history.contains("\n1 ") && history.contains("\n3 "), "{history}");
        let image = "jsonpath={.spec.template.spec.containers[0].image}";
        assert_eq!(kubectl.ok(["get", "deployment", "web", "-o", image]), "x");
        assert_eq!(kubectl.ok("get replicasets -o name").lines().count(), 2);
    });
}

#[test]
fn a_paused_deployment_rolls_nothing_out_until_it_is_resumed() {
    if !target().has(Capability::Controllers) {
        return;
    }
    each(|kubectl| {
        kubectl.ok("create deployment web --image=x --replicas=0");
        reaches(kubectl, "1");
        assert_eq!(
            kubectl.ok("rollout pause deployment web"),
            "deployment.apps/web paused\n"
        );
        kubectl.ok("set image deployment/web x=y");
        until_so("the controller has seen the change", || {
            let deployment = kubectl.json("get deployment web");
            deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
        });
        assert_eq!(kubectl.ok("get replicasets -o name").lines().count(), 1);
        assert_eq!(
            kubectl.ok("rollout resume deployment web"),
            "deployment.apps/web resumed\n"
        );
        reaches(kubectl, "2");
        assert_eq!(kubectl.ok("get replicasets -o name").lines().count(), 2);
    });
}
