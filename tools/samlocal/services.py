"""Runs what functions need on this machine and writes env.json for sam local.

The tables, queues and secrets are those of template.yaml, under their logical
ids. env.json sets, for each function, the variables that the template declares
for it and no others: sam local ignores the rest.
"""

import argparse
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

if "--help" not in sys.argv:  # which works before they are installed
    import boto3
    from samcli.yamlhelper import yaml_parse

# A command that ends when the pipe to it does, so with this process, however
# that ends.
GUARD = """exec 3<&0
"$@" </dev/null 3<&- & child=$!
trap : HUP INT TERM
(read -r _ <&3; kill $child; sleep 2; kill -9 $child) 2>/dev/null &
wait $child; kill $! 2>/dev/null"""


def docker_bridge():
    """The address of this machine that containers reach it under.

    Docker Desktop on another system than Linux forwards host.docker.internal to
    loopback. On Linux it is the bridge's address, and loopback is refused. An
    engine that has just started may tell the bridge's subnet alone, whose first
    address is then the bridge's.
    """
    if sys.platform != "linux":
        return "127.0.0.1"
    try:
        found = subprocess.run(["docker", "network", "inspect", "bridge", "-f", "{{json .IPAM.Config}}"],
                               capture_output=True, text=True, check=True)
        bridges = [b for b in json.loads(found.stdout) if ":" not in b["Subnet"]]
        address = bridges[0].get("Gateway") or str(next(ipaddress.ip_network(bridges[0]["Subnet"]).hosts()))
        with socket.socket() as s:
            try:
                s.bind((address, 0))
            except OSError as e:
                raise ValueError(f"its bridge has {address}, which is not an address of this machine") from e
        return address
    except FileNotFoundError:
        why = "there is no docker in PATH"
    except subprocess.CalledProcessError as e:
        why = e.stderr.strip()
    except (LookupError, TypeError, ValueError) as e:
        why = f"{type(e).__name__}: {e}"
    sys.exit("Docker does not tell where containers reach this machine: pass --bind ADDRESS --host ADDRESS, "
             f"with an address of this machine that they reach\n({why})")


def arguments():
    p = argparse.ArgumentParser(prog="tools/local-services", description=__doc__.splitlines()[0])
    p.add_argument("command", nargs="?", choices=["run", "job"], default="run")
    p.add_argument("--bind", help="address to listen on (that of Docker's bridge)")
    p.add_argument("--host", default="host.docker.internal", help="what functions call this machine (%(default)s)")
    p.add_argument("--port", type=int, default=4566, help="of the local AWS (%(default)s)")
    p.add_argument("--chain-port", type=int, default=8545, help="of the chain (%(default)s)")
    p.add_argument("--block-time", default="1s", help="of the chain (%(default)s)")
    p.add_argument("--env", default="env.json", help="file to write (%(default)s)")
    p.add_argument("--state", default=".cache/local-services", help="beginning of its files' names (%(default)s)")
    p.add_argument("--until-eof", action="store_true", help="end when standard input does")
    p.add_argument("--set", action="append", default=[], metavar="PARAMETER=VALUE", help="a parameter or a setting")
    return p.parse_args()


def launch(command, env=None, **options):
    return subprocess.Popen(["/bin/sh", "-c", GUARD, "guard", *command], stdin=subprocess.PIPE, env=env,
                            start_new_session=True, **options)


def start_aws(a, log):
    """Starts ministack with an environment of its own and waits until it answers."""
    aws = launch([".cache/venv/bin/ministack"], stdout=log, stderr=log, env={
        "HOME": os.environ.get("HOME", "/"), "PATH": os.path.abspath(".cache/venv/bin") + ":" + os.environ["PATH"],
        "BIND_HOST": a.bind, "GATEWAY_PORT": str(a.port), "IOT_MTLS_ENABLED": "0", "SFTP_ENABLED": "0"})
    for _ in range(600):
        if aws.poll() is not None:
            sys.exit(f"the local AWS ended while starting: see {log.name}; is port {a.port} of {a.bind} taken?")
        try:
            urllib.request.urlopen(f"http://{a.bind}:{a.port}/_ministack/health", timeout=5).close()
            return aws
        except OSError:
            time.sleep(0.1)
    sys.exit("the local AWS does not answer")


def start_chain(a, log):
    """Starts the embedded chain and returns it with the facts that it prints."""
    chain = launch([os.environ["REMIT"], "chain", "--chain-listen", f"{a.bind}:{a.chain_port}", "--block-time", a.block_time],
                   stdout=subprocess.PIPE, stderr=log, text=True)
    text = ""
    for line in chain.stdout:
        text += line
        if line.rstrip() == "}":
            return chain, json.loads(text)
    sys.exit(f"the chain ended while starting: see {log.name}; is port {a.chain_port} of {a.bind} taken?")


def clients(url):
    own = dict(endpoint_url=url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
    return {name: boto3.client(name, **own) for name in ("dynamodb", "sqs", "secretsmanager")}


def make(template, aws, secrets):
    """Makes the template's tables, queues and secrets; returns what !Ref of each is."""
    refs = {}
    for name, resource in template["Resources"].items():
        p = resource.get("Properties", {})
        if resource["Type"] == "AWS::DynamoDB::Table":
            indexes = [{k: i[k] for k in ("IndexName", "KeySchema", "Projection")} for i in p["GlobalSecondaryIndexes"]]
            aws["dynamodb"].create_table(TableName=name, AttributeDefinitions=p["AttributeDefinitions"], KeySchema=p["KeySchema"],
                                         GlobalSecondaryIndexes=indexes, BillingMode="PAY_PER_REQUEST")
            refs[name] = name
        elif resource["Type"] == "AWS::SQS::Queue":
            refs[name] = aws["sqs"].create_queue(QueueName=name)["QueueUrl"]
        elif resource["Type"] == "AWS::SecretsManager::Secret":
            aws["secretsmanager"].create_secret(Name=name, SecretString=json.dumps(secrets[name]))
            refs[name] = name
    return refs


def register(aws, refs, facts):
    """Stores the wallets' keys and registers the wallets, as remit wallet create does."""
    for wallet, key in zip(facts["wallets"], facts["private_keys"]):
        aws["secretsmanager"].create_secret(Name=f"{refs['AWS::StackName']}/wallets/{wallet['address']}", SecretString=json.dumps({"private_key": key}))
        aws["dynamodb"].put_item(TableName=refs["PaymentsTable"], Item={name: {"S": text} for name, text in {
            "pk": f"wallets#{facts['chain_id']}", "sk": f"wallet#{wallet['address']}", "token_contract": facts["token"]["address"],
            "state": "active", "signer": "secret"}.items()})


def rail(facts, block_time):
    """The settings of the chain's rail, by name."""
    token = facts["token"]
    return {"ChainId": str(facts["chain_id"]), "TokenAddress": token["address"], "TokenSymbol": token["symbol"],
            "TokenDecimals": str(token["decimals"]), "Network": "local", "ConfirmationRule": "2", "Quorum": "", "BlockTime": block_time,
            "TokenLow": "0", "GasLowGwei": "0", "Closed": "false", "AmountMinimum": "0", "AmountMaximum": "0", "DailyLimit": "0", "ApproveAbove": "",
            "RequireIdempotencyKey": "false", "SanctionsList": "", "MaxFeeCapGwei": "0", "NonceWindow": "0", "MerchantCap": "50", "Memo": "on",
            "RefillToken": "", "RefillEther": "",
            "BatchContract": "0xe7062B299C28608BB223DaF12Dd5c3Fe8dE4467d"}  # on every chain; the embedded one has it


def settle(aws, refs, own):
    """Stores the rail, as remit rails add does, and the key of the sample events."""
    aws["dynamodb"].put_item(TableName=refs["PaymentsTable"], Item={
        "pk": {"S": "rails"}, "sk": {"S": "01"}, "asset": {"S": f"eip155:{own['ChainId']}/erc20:{own['TokenAddress']}"},
        "token_symbol": {"S": own["TokenSymbol"]}, "token_decimals": {"N": own["TokenDecimals"]},
        "added_at": {"S": "2026-01-01T00:00:00.000000000Z"}, "created_at": {"S": "2026-01-01T00:00:00.000000000Z"},
        "version": {"N": "1"}, "needs": {"N": "1"}, "who": {"S": "tools/local-services"}, "reason": {"S": ""},
        "values": {"M": {name: {"S": value} for name, value in own.items()}}})
    caller = json.loads(open("events/send-payment.json").read())["requestContext"]["authorizer"]
    del caller["principalId"]
    aws["dynamodb"].put_item(TableName=refs["ApiKeysTable"], Item={name: {"S": text} for name, text in (caller | {
        "merchant_name": "Sample", "prefix": "remit_test_0aB1cD2eF3gH", "last4": "7XZ5",
        "created_at": "2026-01-01T00:00:00.000000000Z"}).items()})


def environment(template, refs, url):
    """The variables of each function, as the template declares them."""
    def value(v):
        if not isinstance(v, dict):
            return str(v)
        if list(v) == ["Fn::If"]:  # no parameter has a value of its own here
            return value(v["Fn::If"][1 if v["Fn::If"][0].startswith("Own") else 2])
        if list(v) == ["Fn::FindInMap"]:
            mapping, first, second = v["Fn::FindInMap"]
            return value(template["Mappings"][mapping][value(first)][second])
        if list(v) == ["Fn::Sub"]:
            return v["Fn::Sub"].replace("${AWS::StackName}", refs["AWS::StackName"])
        if list(v) != ["Ref"]:
            sys.exit(f"cannot tell what {v} in template.yaml is here")
        return str(refs[v["Ref"]])

    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    functions = {}
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Serverless::Function":
            own = resource["Properties"].get("Environment", {}).get("Variables", {})
            functions[name] = {k: value(v) for k, v in {**shared, **own, "AWS_ENDPOINT_URL": url}.items()}
    return functions


def run(a):
    a.bind = a.bind or docker_bridge()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.makedirs(".cache", exist_ok=True)
    with open("template.yaml", encoding="utf-8") as f:
        template = yaml_parse(f.read())
    with open(a.state + ".log", "w", encoding="utf-8") as log:
        cloud = start_aws(a, log)
        chain, facts = start_chain(a, log)
        mine, theirs = f"http://{a.bind}:{a.port}", f"http://{a.host}:{a.port}"
        refs = {name: p.get("Default", "") for name, p in template["Parameters"].items()}
        refs["AWS::StackName"] = "remit-local"
        own = rail(facts, a.block_time)
        for name, _, value in (setting.partition("=") for setting in a.set):
            if name not in own and name not in template["Parameters"]:
                sys.exit(f"there is no parameter and no setting {name}")
            (own if name in own else refs)[name] = value
        aws = clients(mine)
        refs |= make(template, aws, {"RpcSecret": {own["ChainId"]: {"urls": [f"http://{a.host}:{a.chain_port}"]}}})
        register(aws, refs, facts)
        settle(aws, refs, own)
        with open(a.env, "w", encoding="utf-8") as f:
            json.dump(environment(template, refs, theirs), f, indent=2)
            f.write("\n")
        with open(a.state + ".json", "w", encoding="utf-8") as f:
            json.dump({"aws": mine, "queue": refs["WebhookQueue"]}, f)
        print(f"{a.env} is written. The local AWS is at {mine}, the chain at http://{a.bind}:{a.chain_port}. Ctrl-C ends both.", flush=True)
        if a.until_eof:
            sys.stdin.read()
            return
        while cloud.poll() is None and chain.poll() is None:
            time.sleep(0.5)
        sys.exit(f"the local AWS or the chain ended: see {log.name}")


def job(a):
    """Takes one job from the webhook queue and prints it as Lambda would get it."""
    try:
        with open(a.state + ".json", encoding="utf-8") as f:
            state = json.load(f)
    except FileNotFoundError:
        sys.exit("no queue is known here: run tools/local-services in another terminal first")
    sqs = clients(state["aws"])["sqs"]
    got = sqs.receive_message(QueueUrl=state["queue"], AttributeNames=["All"], WaitTimeSeconds=2).get("Messages", [])
    if not got:
        sys.exit("no webhook waits to be sent")
    m = got[0]
    sqs.delete_message(QueueUrl=state["queue"], ReceiptHandle=m["ReceiptHandle"])
    json.dump({"Records": [{"messageId": m["MessageId"], "receiptHandle": m["ReceiptHandle"], "body": m["Body"],
                            "attributes": m.get("Attributes", {}), "messageAttributes": {}, "md5OfBody": m["MD5OfBody"],
                            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:WebhookQueue",
                            "eventSource": "aws:sqs", "awsRegion": "us-east-1"}]}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    args = arguments()
    try:
        run(args) if args.command == "run" else job(args)
    except KeyboardInterrupt:
        print()
