// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// TestToken behaves like USDC where a payment service can tell the difference:
/// six decimals, an owner who mints, a blacklist, a pause, EIP-3009 transfers
/// under an EIP-712 domain, and USDC's own revert texts. It is worth nothing,
/// and its owner's key is published.
///
/// The owner may also give a recipient a behaviour, so that tests and the
/// sandbox can show the end of a payment when a token misbehaves.
contract TestToken {
    /// What a transfer to a recipient does instead of an ordinary transfer.
    enum Behaviour {
        Ordinary, // moves the amount, logs it, returns true
        RevertWhenMined, // reverts only at a gas price, so that estimation passes
        Revert, // reverts always
        ReturnFalse, // moves nothing, logs nothing, returns false
        NoLog, // moves the amount, logs nothing, returns true
        NoMove, // moves nothing, logs nothing, returns true
        ShortLog // moves and logs one unit less than asked
    }

    string public constant name = "USD Coin";
    string public constant symbol = "USDC";
    string public constant version = "2";
    uint8 public constant decimals = 6;

    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public immutable DOMAIN_SEPARATOR;

    // Half of the order of secp256k1. EIP-2 allows s only up to here: a
    // signature with the other s would be a second one for the same words.
    uint256 private constant HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    address public immutable owner;
    uint256 public totalSupply;
    bool public paused;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => bool) public isBlacklisted;
    mapping(address => Behaviour) public behaviourOf;
    mapping(address => mapping(bytes32 => bool)) public authorizationState;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event Blacklisted(address indexed account);
    event UnBlacklisted(address indexed account);
    event Pause();
    event Unpause();

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    modifier whenNotPaused() {
        require(!paused, "Pausable: paused");
        _;
    }

    modifier notBlacklisted(address account) {
        require(!isBlacklisted[account], "Blacklistable: account is blacklisted");
        _;
    }

    constructor() {
        owner = msg.sender;
        DOMAIN_SEPARATOR = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(version)),
                block.chainid,
                address(this)
            )
        );
    }

    // ERC-20

    function transfer(address to, uint256 value)
        external
        whenNotPaused
        notBlacklisted(msg.sender)
        notBlacklisted(to)
        returns (bool)
    {
        return _transfer(msg.sender, to, value);
    }

    function approve(address spender, uint256 value)
        external
        whenNotPaused
        notBlacklisted(msg.sender)
        notBlacklisted(spender)
        returns (bool)
    {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value)
        external
        whenNotPaused
        notBlacklisted(msg.sender)
        notBlacklisted(from)
        notBlacklisted(to)
        returns (bool)
    {
        require(value <= allowance[from][msg.sender], "ERC20: transfer amount exceeds allowance");
        allowance[from][msg.sender] -= value;
        return _transfer(from, to, value);
    }

    // EIP-3009

    /// Moves value as from has signed, once per nonce of from.
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external whenNotPaused notBlacklisted(from) notBlacklisted(to) {
        require(block.timestamp > validAfter, "FiatTokenV2: authorization is not yet valid");
        require(block.timestamp < validBefore, "FiatTokenV2: authorization is expired");
        require(!authorizationState[from][nonce], "FiatTokenV2: authorization is used or canceled");
        bytes32 words = keccak256(
            abi.encode(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce)
        );
        address signer = ecrecover(keccak256(abi.encodePacked("\x19\x01", DOMAIN_SEPARATOR, words)), v, r, s);
        require(
            uint256(s) <= HALF_ORDER && signer != address(0) && signer == from, "FiatTokenV2: invalid signature"
        );
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        _transfer(from, to, value);
    }

    // For the owner

    function mint(address to, uint256 value) external onlyOwner {
        require(to != address(0), "FiatToken: mint to the zero address");
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function blacklist(address account) external onlyOwner {
        isBlacklisted[account] = true;
        emit Blacklisted(account);
    }

    function unBlacklist(address account) external onlyOwner {
        isBlacklisted[account] = false;
        emit UnBlacklisted(account);
    }

    function pause() external onlyOwner {
        paused = true;
        emit Pause();
    }

    function unpause() external onlyOwner {
        paused = false;
        emit Unpause();
    }

    function setBehaviour(address recipient, Behaviour behaviour) external onlyOwner {
        behaviourOf[recipient] = behaviour;
    }

    // Every transfer ends here.
    function _transfer(address from, address to, uint256 value) private returns (bool) {
        require(from != address(0), "ERC20: transfer from the zero address");
        require(to != address(0), "ERC20: transfer to the zero address");
        require(value <= balanceOf[from], "ERC20: transfer amount exceeds balance");
        Behaviour behaviour = behaviourOf[to];
        // eth_call and eth_estimateGas run at a gas price of zero when the caller names none.
        require(behaviour != Behaviour.RevertWhenMined || tx.gasprice == 0, "TestToken: reverts when mined");
        require(behaviour != Behaviour.Revert, "TestToken: reverts");
        if (behaviour == Behaviour.ReturnFalse) return false;
        if (behaviour == Behaviour.NoMove) return true;
        if (behaviour == Behaviour.ShortLog && value > 0) value -= 1;
        balanceOf[from] -= value;
        balanceOf[to] += value;
        if (behaviour != Behaviour.NoLog) emit Transfer(from, to, value);
        return true;
    }
}
