//! What a person sees and does with kubectl.

use crate::stage::{NODE, Stage, addresses, container};

struct Kubectl<'a>(&'a Stage);

impl Kubectl<'_> {
    fn run(&self, line: &str) -> Result<String, String> {
        let mut command = self.0.scene.cluster.kubectl();
        let output = command.args(line.split(' ')).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    /// Returns the output once there is some. The bound only ends a run that would hang.
    fn table(&self, line: &str) -> String {
        for _ in 0..1200 {
            let table = self.run(line).unwrap();
            if !table.is_empty() {
                return table;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{line}: nothing is there");
    }

    /// The cells of a table's first row, by column.
    fn row(&self, line: &str) -> Vec<(String, String)> {
        let table = self.table(line);
        let (head, row) = table.split_once('\n').unwrap();
        let starts: Vec<usize> = head
            .char_indices()
            .filter(|(at, letter)| *letter != ' ' && (*at == 0 || head[..*at].ends_with("  ")))
            .map(|(at, _)| at)
            .collect();
        let cell = |text: &str, n: usize| {
            let end = starts.get(n + 1).copied().unwrap_or(text.len()).min(text.len());
            text[starts[n].min(end)..end].trim().to_owned()
        };
        let row = row.lines().next().unwrap();
        (0..starts.len()).map(|n| (cell(head, n), cell(row, n))).collect()
    }
}

fn cells(cells: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    cells.iter().map(own).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_what_there_is_and_asks_for_more() {
    let mut stage = Stage::open("kubectl").await;
    let patched = Kubectl(&stage).run(&format!(
        "patch nnc -n kube-system {NODE} --type=merge \
         --patch={{\"spec\":{{\"requestedIPCount\":3}}}}"
    ));
    patched.unwrap();
    let nnc = stage
        .until("it has three addresses", |nnc| addresses(nnc).len() == 3)
        .await;
    let id = &container(&nnc).unwrap().id;

    let kubectl = Kubectl(&stage);
    let narrow = kubectl.row("get nnc -n kube-system");
    let expected = [
        ("NAME", NODE),
        ("ALLOCATED IPS", "3"),
        ("NC MODE", "dynamic"),
        ("NC VERSION", "1"),
    ];
    assert_eq!(narrow, cells(&expected));
    let wide = kubectl.row("get nodenetworkconfigs -n kube-system -o wide");
    let expected = [
        ("NAME", NODE),
        ("REQUESTED IPS", "3"),
        ("AVAILABILITY ZONE", ""),
        ("ALLOCATED IPS", "3"),
        ("SUBNET", "pods"),
        ("SUBNET CIDR", "10.64.0.0/24"),
        ("SUBNET CIDR V6", ""),
        ("NC ID", id),
        ("NC MODE", "dynamic"),
        ("NC TYPE", "vnet"),
        ("NC VERSION", "1"),
    ];
    assert_eq!(wide, cells(&expected));
    let state = kubectl.row("get clustersubnetstates -n kube-system");
    let names: Vec<&str> = state.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        (names, state[1].1.as_str()),
        (vec!["NAME", "EXHAUSTED", "UPDATED"], "false")
    );

    let refused = kubectl.run(&format!(
        "patch nnc -n kube-system {NODE} --type=merge \
         --patch={{\"spec\":{{\"requestedIPCount\":-1}}}}"
    ));
    let refused = refused.unwrap_err();
    assert!(refused.contains("spec.requestedIPCount"), "{refused}");
    let explained = kubectl.run("explain nnc.spec.requestedIPCount").unwrap();
    assert!(explained.contains("requestedIPCount"), "{explained}");
}
