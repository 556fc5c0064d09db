//! Credentials as pods of EKS have them: a token in a file, and a role that STS gives keys of.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use berth_routes::backend::aws::Aws;
use berth_routes::backend::{Backend, ErrorKind};
use parking_lot::Mutex;

use crate::cluster::{Cluster, table_is, wait_for};
use crate::ec2::{Ec2, backend, between, ec2_error};
use crate::logs::Logs;
use crate::proxy::Proxy;

/// As in a pod of EKS whose account has a role.
fn by_web_identity(ec2: &Ec2, port: u16, token_file: &Path) -> Arc<Aws> {
    let file = format!("[Global]\nRouteTableID = {}\n", ec2.tables[0]);
    let token_file = token_file.display().to_string();
    let role = "arn:aws:iam::123456789012:role/routes";
    let identity = [
        ("AWS_ROLE_ARN", role),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token_file.as_str()),
    ];
    backend(port, &file, &identity)
}

fn token(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn web_identity_keys_are_fetched_once_and_never_logged() {
    let logs = Logs::capture();
    let ec2 = Ec2::start(1, 4);
    let proxy = Proxy::start(ec2.server.port);
    // What STS gives away.
    let given = Arc::new(Mutex::new(Vec::new()));
    let seen = given.clone();
    proxy.after(move |_, body| {
        for name in ["AccessKeyId", "SecretAccessKey", "SessionToken"] {
            let found = between(&body, &format!("<{name}>"), &format!("</{name}>"));
            seen.lock().extend(found.into_iter().map(String::from));
        }
        body
    });
    let token = token("eyJhbGciOi.web-identity.token\n");
    let cluster = Cluster::open().await;
    for at in 0..4 {
        ec2.node(&cluster, at).await;
    }
    let backend = by_web_identity(&ec2, proxy.port, token.path());
    let controller = cluster.start(backend, "10.120.0.0/16");
    table_is(
        || ec2.table(),
        &ec2.wanted(&[(0, 0), (1, 1), (2, 2), (3, 3)]),
    )
    .await;
    controller.stop().await;
    cluster.close().await;

    let calls = proxy.calls();
    let asked: Vec<&String> = calls
        .iter()
        .filter(|call| call.contains("Action=AssumeRoleWithWebIdentity"))
        .collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].contains("WebIdentityToken=eyJhbGciOi.web-identity.token"),
        "{asked:?}"
    );
    assert!(asked[0].contains("role%2Froutes"), "{asked:?}");
    let given = given.lock().clone();
    assert_eq!(given.len(), 3);
    let mut secrets: Vec<&str> = given.iter().map(String::as_str).collect();
    secrets.push("web-identity.token");
    logs.hide(&secrets);
}

/// moto takes any token: that these keys are used is seen by what it wants of them.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_a_web_identity_are_sent_with_their_session() {
    let ec2 = Ec2::start(1, 1);
    let proxy = Proxy::start(ec2.server.port);
    let signed = Arc::new(Mutex::new(Vec::new()));
    let seen = signed.clone();
    proxy.instead(move |parts, body| {
        let header = |name: &str| {
            let value = parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        if !body.contains("AssumeRole") {
            seen.lock()
                .push((header("authorization"), header("x-amz-security-token")));
        }
        None
    });
    let keys = Arc::new(Mutex::new(Vec::new()));
    let given = keys.clone();
    proxy.after(move |_, body| {
        for name in ["AccessKeyId", "SessionToken"] {
            let found = between(&body, &format!("<{name}>"), &format!("</{name}>"));
            given.lock().extend(found.into_iter().map(String::from));
        }
        body
    });
    let token = token("web-identity-token");
    let backend = by_web_identity(&ec2, proxy.port, token.path());
    backend.list().await.unwrap();
    let (signed, keys) = (signed.lock().clone(), keys.lock().clone());
    assert!(!signed.is_empty());
    for (authorization, session) in &signed {
        assert!(
            authorization.contains(&format!("Credential={}/", keys[0])),
            "{authorization}"
        );
        assert_eq!(*session, keys[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_identity_that_is_refused_is_one_clear_error() {
    let logs = Logs::capture();
    let ec2 = Ec2::start(1, 0);
    let missing = Path::new("/nowhere/token");
    let backend = by_web_identity(&ec2, ec2.server.port, missing);
    let error = backend.list().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
    assert!(
        error
            .message
            .contains("AWS_WEB_IDENTITY_TOKEN_FILE: /nowhere/token"),
        "{error}"
    );

    let proxy = Proxy::start(ec2.server.port);
    proxy.instead(|_, body| {
        let asks = body.contains("AssumeRoleWithWebIdentity");
        asks.then(|| ec2_error(400, "InvalidIdentityToken"))
    });
    let token = token("web-identity-token");
    let cluster = Cluster::open().await;
    let backend = by_web_identity(&ec2, proxy.port, token.path());
    let error = backend.list().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
    let controller = cluster.start(backend, "10.120.0.0/16");
    wait_for("it was refused", async || match proxy.calls().len() {
        0 | 1 => Err(String::new()),
        _ => Ok(()),
    })
    .await;
    controller.stop().await;
    cluster.close().await;
    assert_eq!(
        error.message,
        "AssumeRoleWithWebIdentity: InvalidIdentityToken: test"
    );
    logs.hide(&["web-identity-token"]);
}
