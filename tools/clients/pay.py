"""Completes a payment with the generated Python client."""

import os
import sys
import time
import uuid

from remit_client import AuthenticatedClient, Client
from remit_client.api.api_keys import create_api_key
from remit_client.api.payments import get_balance, get_transaction, list_transactions, send_payment
from remit_client.models import CreateAPIKeyRequest, Invalid, Payment, SendPaymentRequest

RECIPIENT = "0x1111111111111111111111111111111111111111"
url = os.environ["REMIT_URL"]

created = create_api_key.sync(client=Client(base_url=url), body=CreateAPIKeyRequest(merchant_name="Python"))
client = AuthenticatedClient(base_url=url, token=created.api_key, prefix="", auth_header_name="x-api-key")

key = str(uuid.uuid4())
body = SendPaymentRequest(wallet_address=RECIPIENT, amount=2_500_000, reference="python")
paid = send_payment.sync(client=client, body=body, idempotency_key=key)
again = send_payment.sync(client=client, body=body, idempotency_key=key)
assert isinstance(paid, Payment) and paid.tx_hash == again.tx_hash, (paid, again)
print("paid", paid.tx_hash, paid.status.value, paid.amount)

for _ in range(150):
    seen = get_transaction.sync(paid.tx_hash, client=client)
    if seen.status.value != "pending":
        break
    time.sleep(0.2)
assert seen.status.value == "confirmed", seen
print("confirmed in block", seen.block_number)

listed = list_transactions.sync(client=client, idempotency_key=key)
assert [p.tx_hash for p in listed.data] == [paid.tx_hash], listed
balance = get_balance.sync(RECIPIENT, client=client)
assert balance.balance >= paid.amount, balance
print("balance of the recipient", balance.balance)

refused = send_payment.sync(client=client, body=SendPaymentRequest(wallet_address="0x0", amount=1))
assert isinstance(refused, Invalid) and refused.detail[0].type_.value == "address_invalid", refused
print("refused:", refused.detail[0].msg)
sys.exit(0)
