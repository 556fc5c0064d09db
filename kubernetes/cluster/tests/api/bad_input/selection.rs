//! Selectors that cannot be understood.

use super::{Desk, config_map};
use crate::request::{delete, get};

#[test]
fn a_label_selector_that_cannot_be_read_is_a_bad_request() {
    let desk = Desk::new();
    desk.have(&desk.core("configmaps"), &config_map("a"));
    for selector in [
        "a%20in%20(",
        "a%3D%3D%3Db",
        "%21",
        "a%20notin",
        "a%20b",
        "-a",
        "a%3Db%20c",
        "a%3E%3Dx",
        ",",
        "a%2Fb%2Fc",
    ] {
        let query = format!("labelSelector={selector}");
        desk.refuses(
            &query,
            get(desk.core("configmaps")).query(&query),
            400,
            "BadRequest",
            &[],
        );
        desk.refuses(
            &query,
            delete(desk.core("configmaps")).query(&query),
            400,
            "BadRequest",
            &[],
        );
        let watch = format!("watch=true&{query}");
        desk.refuses(
            &watch,
            get(desk.core("configmaps")).query(&watch),
            400,
            "BadRequest",
            &[],
        );
    }
}

#[test]
fn an_invalid_or_unsupported_field_selector_is_a_bad_request() {
    let desk = Desk::new();
    desk.have(&desk.core("configmaps"), &config_map("a"));
    for selector in [
        "metadata.name",
        "data.a%3D1",
        "spec.nodeName%3Da",
        "metadata.labels%3Da",
        "nonsense%3D1",
    ] {
        let query = format!("fieldSelector={selector}");
        desk.refuses(
            &query,
            get(desk.core("configmaps")).query(&query),
            400,
            "BadRequest",
            &[],
        );
        desk.refuses(
            &query,
            delete(desk.core("configmaps")).query(&query),
            400,
            "BadRequest",
            &[],
        );
    }
    for selector in [
        "spec.nodeName%3Da",
        "status.phase%21%3DRunning",
        "spec.restartPolicy%3DAlways",
        "metadata.namespace%3Da",
    ] {
        get(desk.core("pods"))
            .query(&format!("fieldSelector={selector}"))
            .send()
            .expect(200);
    }
}
