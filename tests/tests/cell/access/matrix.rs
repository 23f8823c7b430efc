//! Every method of the API against every kind of caller, as gateways answer it: a golden file.

use std::fmt::Write as _;
use std::path::Path;

use borough_proto::FILE_DESCRIPTOR_SET;
use borough_tests::{TestCell, options, until};
use bytes::{Buf as _, BufMut as _, Bytes};
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::{TokenIssuer, with_token};

/// Messages as bytes.
#[derive(Clone, Copy, Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Whose work a request concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concern {
    /// That of the caller.
    Own,
    /// That of another user.
    Other,
    /// Everybody's.
    All,
}

/// The descriptors of the API.
struct Api(FileDescriptorSet);

impl Api {
    fn message(&self, name: &str) -> &DescriptorProto {
        let short = name.rsplit('.').next().unwrap();
        let mut all = self.0.file.iter().flat_map(|file| &file.message_type);
        all.find(|message| message.name() == short).unwrap_or_else(|| panic!("no message {name}"))
    }

    /// A request with a caller's context, the cell, and the owner where the message has one.
    fn request(&self, message: &DescriptorProto, context: &[u8], owner: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let is_cell_named = message.name() == "GetCellRequest" || message.name() == "UpdateCellRequest";
        for field in &message.field {
            let number = u32::try_from(field.number()).unwrap();
            match field.name() {
                "context" => part(&mut bytes, number, context),
                "cell" => part(&mut bytes, number, b"alpha"),
                "name" if is_cell_named => part(&mut bytes, number, b"alpha"),
                "name" | "job" => part(&mut bytes, number, b"nothing"),
                "user" => part(&mut bytes, number, owner.as_bytes()),
                "spec" | "filter" => {
                    let inner = self.message(field.type_name());
                    let user = inner.field.iter().find(|field| field.name() == "user");
                    let Some(user) = user else { continue };
                    let mut nested = Vec::new();
                    part(&mut nested, u32::try_from(user.number()).unwrap(), owner.as_bytes());
                    part(&mut bytes, number, &nested);
                }
                "open" => part(&mut bytes, number, &self.request(self.message("ExecOpen"), context, owner)),
                _ => {}
            }
        }
        bytes
    }

    fn has_owner(&self, message: &DescriptorProto) -> bool {
        message.field.iter().any(|field| match field.name() {
            "user" => true,
            "spec" | "filter" => self.has_owner(self.message(field.type_name())),
            "open" => true,
            _ => false,
        })
    }
}

/// A field of the kind of a text.
fn part(bytes: &mut Vec<u8>, number: u32, value: &[u8]) {
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, bytes);
    prost::encoding::encode_varint(value.len() as u64, bytes);
    bytes.extend_from_slice(value);
}

/// A kind of caller: its name in the file, its token, and the user that it says it is.
struct Caller {
    name: &'static str,
    token: Option<String>,
    user: &'static str,
    own: &'static str,
}

fn token_read(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).unwrap().trim().to_owned())
}

async fn answer(channel: &Channel, caller: &Caller, method: &str, message: Vec<u8>) -> &'static str {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let mut request = Request::new(futures::stream::iter([Bytes::from(message)]));
    if let Some(token) = &caller.token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request.set_timeout(std::time::Duration::from_secs(20));
    let path = format!("/{method}").parse().unwrap();
    let outcome = match client.streaming(request, path, RawCodec).await {
        Ok(response) => {
            let mut stream = response.into_inner();
            // A stream that is open was admitted, also if it has nothing to say yet.
            match tokio::time::timeout(std::time::Duration::from_millis(500), stream.message()).await {
                Ok(Err(status)) => Err(status),
                Ok(Ok(_)) | Err(_) => Ok(()),
            }
        }
        Err(status) => Err(status),
    };
    match outcome.map_err(|status| status.code()) {
        Err(Code::Unauthenticated) => "-",
        Err(Code::PermissionDenied) => "no",
        Err(Code::Unimplemented) => "?",
        _ => "yes",
    }
}

async fn callers(cell: &TestCell, issuer: &TokenIssuer) -> Vec<Caller> {
    let user = |name: &'static str, groups: &[&str]| Caller {
        name,
        token: token_read(&issuer.token(name, groups)),
        user: "",
        own: name,
    };
    let node = token_read(&cell.root().join("node-token-alpha"));
    let callers = vec![
        Caller { name: "nobody", token: None, user: "tester", own: "tester" },
        Caller { name: "forged", token: Some("eyJh.eyJz.c2ln".to_owned()), user: "tester", own: "tester" },
        Caller { name: "node", token: node, user: "tester", own: "tester" },
        user("stranger", &[]),
        user("viewer", &[]),
        user("runner", &[]),
        user("maintainer", &[]),
        user("denied", &["leaving"]),
        user("admin", &[]),
        Caller { name: "operator", token: Some(cell.token()), user: "tester", own: "tester" },
    ];
    for role in ["viewer", "runner", "maintainer", "admin"] {
        cell.borough(&["auth", "grant", &format!("user/{role}"), "--role", role]).await.ended(0);
    }
    cell.borough(&["auth", "grant", "user/denied", "--role", "admin"]).await.ended(0);
    let denied = ["read", "run_jobs", "modify_any_job", "exec_any_task", "administer"];
    let denied: Vec<&str> = denied.iter().flat_map(|right| ["--deny", right]).collect();
    cell.borough(&[&["auth", "grant", "group/leaving"][..], &denied].concat()).await.ended(0);
    until("every grant at the gateway", || async {
        let ran =
            with_token(cell, &issuer.token("admin", &["seen"]), &["auth", "grants", "group/leaving"]).await;
        (ran.code == Some(0)).then_some(())
    })
    .await;
    callers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_method_answers_every_kind_of_caller_as_the_file_says() {
    let issuer = TokenIssuer::new();
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &issuer.file()])).await;
    let api = Api(FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap());
    let callers = callers(&cell, &issuer).await;
    let channel = Channel::from_shared(format!("http://{}", cell.grpc())).unwrap().connect().await.unwrap();
    let mut lines = String::new();
    write!(lines, "{:<44}", "method").unwrap();
    callers.iter().for_each(|caller| write!(lines, "{:<11}", caller.name).unwrap());
    lines = format!("{}\n", lines.trim_end());
    for file in &api.0.file {
        for service in &file.service {
            for method in &service.method {
                let message = api.message(method.input_type());
                let concerns: &[Concern] = if api.has_owner(message) {
                    &[Concern::Own, Concern::Other, Concern::All]
                } else {
                    &[Concern::All]
                };
                for concern in concerns {
                    let name = format!("{}/{}", service.name(), method.name());
                    let of = match concern {
                        Concern::Own => " (own)",
                        Concern::Other => " (other's)",
                        Concern::All => "",
                    };
                    let mut line = format!("{:<44}", format!("{name}{of}"));
                    for caller in &callers {
                        let request_id = format!("{:032x}", lines.len() * 100 + line.len());
                        let context =
                            borough_proto::v1::RequestContext { request_id, user: caller.user.to_owned() };
                        let owner = match concern {
                            Concern::Own => caller.own,
                            Concern::Other => "zoe",
                            Concern::All => "",
                        };
                        let bytes = api.request(message, &context.encode_to_vec(), owner);
                        let path = format!("{}.{name}", file.package());
                        write!(line, "{:<11}", answer(&channel, caller, &path, bytes).await).unwrap();
                    }
                    writeln!(lines, "{}", line.trim_end()).unwrap();
                }
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cell/access/matrix.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &lines).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(lines, wanted, "UPDATE_EXPECT=1 writes the file; look at every line that changes");
    cell.finish().await;
}
